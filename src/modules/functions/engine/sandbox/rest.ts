/**
 * Whether a run is at rest: its code waits for a call, for a timer or for nothing. The platform takes a run with open
 * calls for one that is, and one without for one that computes; it is told where that is wrong for longer than a moment.
 */

/** Looks in a row that find it otherwise than the platform thinks, until that is told. */
const LOOKS_AT_REST = 5;
const LOOKS_AT_WORK = 3;

export class Rest {
  readonly #tell: (rests: boolean) => void;
  #told: boolean | undefined;
  #looks = 0;

  constructor(tell: (rests: boolean) => void) {
    this.#tell = tell;
  }

  look(rests: boolean, openCalls: number): void {
    const isKnown = rests === (this.#told ?? openCalls > 0);
    this.#looks = isKnown ? 0 : this.#looks + 1;
    if (this.#looks < (rests ? LOOKS_AT_REST : LOOKS_AT_WORK)) return;
    this.#looks = 0;
    this.#told = rests;
    this.#tell(rests);
  }
}
