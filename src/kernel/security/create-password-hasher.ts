/** The password hasher over argon2id (parameters of the OWASP password storage guide). */
import { hash, parseOptions, verify } from '@node-rs/argon2';
import { errors } from '../errors.ts';
import type { PasswordHasher } from './passwords.ts';

export interface PasswordHasherOptions {
  /** Hashes computed at the same time; 2 unless set. Each holds one thread and `memoryKiB` for about 10 ms. */
  readonly concurrency?: number;
  /** Callers that may wait for a turn; 256 unless set, which is about two seconds of work. */
  readonly maxWaiting?: number;
  readonly memoryKiB?: number;
  readonly passes?: number;
}

/** The number of argon2id in the library's enumeration, which exists at compile time only. */
const argon2id = 2;

/**
 * Makes the hasher. Beyond `maxWaiting` it refuses with 503 and `Retry-After`, so that a flood of
 * logins costs a bounded amount of memory and cannot starve the file system of its threads.
 */
export function createPasswordHasher(options: PasswordHasherOptions = {}): PasswordHasher {
  const parameters = { memoryCost: options.memoryKiB ?? 19_456, timeCost: options.passes ?? 2, parallelism: 1, algorithm: argon2id };
  const inTurn = createTurnstile(options.concurrency ?? 2, options.maxWaiting ?? 256);
  let decoy: Promise<string> | undefined;

  return {
    hash: (password) => inTurn(() => hash(prepared(password), parameters)),
    async verify(stored, password) {
      if (stored !== undefined) return inTurn(() => verify(stored, prepared(password)));
      decoy ??= hash('no account has this password', parameters);
      const comparable = await decoy;
      await inTurn(() => verify(comparable, prepared(password)));
      return false;
    },
    outdated(stored) {
      const used = parseOptions(stored);
      return (
        used.algorithm !== argon2id ||
        used.memoryCost !== parameters.memoryCost ||
        used.timeCost !== parameters.timeCost ||
        used.parallelism !== parameters.parallelism
      );
    },
  };
}

/** One form for all ways to type the same characters, never cut short (argon2 takes any length). */
const prepared = (password: string): Buffer => Buffer.from(password.normalize('NFKC'), 'utf8');

/** Lets `width` tasks run at a time and `maxWaiting` wait, first come first served. */
function createTurnstile(width: number, maxWaiting: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;

  return async (task) => {
    if (running < width) running += 1;
    else if (waiting.length >= maxWaiting) {
      throw errors.UNAVAILABLE({ message: 'Too many passwords are being checked at once: try again in a moment', retryAfter: 2 });
    } else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
