/**
 * Calls of one run on their way to the platform, which has the arguments of all that are not answered in its memory and
 * reads them on the thread that everybody uses. More than so many characters wait here for the answers of those before.
 */

export interface SentCall {
  readonly call: number;
  readonly name: string;
  readonly text: string;
}

export class SentCalls {
  readonly #most: number;
  readonly #send: (call: SentCall) => void;
  readonly #waiting: SentCall[] = [];
  /** Characters of those that are sent and not answered, by call. */
  readonly #open = new Map<number, number>();
  #characters = 0;

  constructor(most: number, send: (call: SentCall) => void) {
    this.#most = most;
    this.#send = send;
  }

  /** In the order in which they come. */
  send(call: SentCall): void {
    this.#waiting.push(call);
    this.#sendThoseThatFit();
  }

  answered(call: number): void {
    this.#characters -= this.#open.get(call) ?? 0;
    this.#open.delete(call);
    this.#sendThoseThatFit();
  }

  #sendThoseThatFit(): void {
    for (let [next] = this.#waiting; next && this.#fits(next); [next] = this.#waiting) {
      this.#waiting.shift();
      this.#characters += next.text.length;
      this.#open.set(next.call, next.text.length);
      this.#send(next);
    }
  }

  /** A single one always does. */
  #fits({ text }: SentCall): boolean {
    return this.#open.size === 0 || this.#characters + text.length <= this.#most;
  }
}
