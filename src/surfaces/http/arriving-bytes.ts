/** What bodies on their way hold in memory: together, and those of one address. */
import { addressKey } from '../../kernel/caller.ts';
import { errors, type PenstockError } from '../../kernel/errors.ts';

/** Bytes. */
export interface ArrivingBounds {
  readonly ofAddress: number;
  readonly ofAll: number;
}

const MEGABYTE = 1_048_576;
const usual: ArrivingBounds = { ofAddress: 64 * MEGABYTE, ofAll: 256 * MEGABYTE };
/** Seconds. */
const RETRY_AFTER = 1;

/**
 * Each body has a limit and a time of its own, and nobody waits for a place before it is there: without a bound on all of
 * them a few thousand that stop right before their end would take all memory.
 */
export class ArrivingBytes {
  readonly #bounds: ArrivingBounds;
  readonly #byAddress = new Map<string, number>();
  #all = 0;

  constructor(bounds: ArrivingBounds = usual) {
    this.#bounds = bounds;
  }

  /** Notes bytes that have come; the refusal where they are too many. They are to be given back either way. */
  take(address: string, bytes: number): PenstockError | undefined {
    const key = addressKey(address);
    const own = (this.#byAddress.get(key) ?? 0) + bytes;
    this.#byAddress.set(key, own);
    this.#all += bytes;
    if (own > this.#bounds.ofAddress)
      return errors.RATE_LIMIT({
        message: 'Too much of your requests is on its way at once: wait for their answers',
        retryAfter: RETRY_AFTER,
      });
    if (this.#all > this.#bounds.ofAll)
      return errors.UNAVAILABLE({
        message: 'Too much is on its way at once: try again shortly',
        retryAfter: RETRY_AFTER,
      });
    return undefined;
  }

  giveBack(address: string, bytes: number): void {
    const key = addressKey(address);
    const left = (this.#byAddress.get(key) ?? 0) - bytes;
    if (left > 0) this.#byAddress.set(key, left);
    else this.#byAddress.delete(key);
    this.#all -= bytes;
  }
}
