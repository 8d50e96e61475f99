/** The password hasher over argon2id (parameters of the OWASP password storage guide). */
import { availableParallelism } from 'node:os';
import { type Options, parseOptions } from '@node-rs/argon2';
import { Piscina } from 'piscina';
import { addressKey } from '../caller.ts';
import { errors } from '../errors.ts';
import { FairGate, type GateLimits } from '../request-account/fair-gate.ts';
import { currentAccount } from '../request-account/request-account.ts';
import type { HashTask, VerifyTask } from './hash-worker.ts';

/** Password hashing: argon2id in a bounded pool (spec/authentication.md section 9). */
export interface PasswordHasher {
  hash(password: string): Promise<string>;
  /**
   * True when it matches. With `undefined` (no such account, no password) it does the same work
   * and answers false, so that time tells nothing.
   */
  verify(hash: string | undefined, password: string): Promise<boolean>;
  /** The hash was made with other parameters than those in force: hash again after a successful login. */
  outdated(hash: string): boolean;
}

interface PasswordHasherOptions {
  /**
   * Hashes computed at the same time; unless set 2, or 1 where there are no more than two processors: the others must have
   * one left while logins come without end. Each holds one thread and `memoryKiB` for about 10 ms.
   */
  readonly concurrency?: number;
  /** Callers that may wait for a turn; 256 unless set, which is a few seconds of work. A quarter of them from one address. */
  readonly maxWaiting?: number;
  /** Milliseconds that they may wait; 2,000 unless set. */
  readonly maxWaitMs?: number;
  readonly memoryKiB?: number;
  readonly passes?: number;
}

const usualConcurrency = (): number => (availableParallelism() > 2 ? 2 : 1);

/** The number of argon2id in the library's enumeration, which exists at compile time only. */
const argon2id = 2;

/**
 * Makes the hasher. Beyond `maxWaiting`, and whoever has waited for `maxWaitMs`, it refuses with 503 and `Retry-After`:
 * a flood of logins costs a bounded amount of memory, and nobody more than a bounded time. Addresses take turns.
 */
export function createPasswordHasher(options: PasswordHasherOptions = {}): PasswordHasher {
  const parameters: Options = {
    memoryCost: options.memoryKiB ?? 19_456,
    timeCost: options.passes ?? 2,
    parallelism: 1,
    algorithm: argon2id,
  };
  const threads = createThreads(gateLimits(options));
  const hash = (password: string): Promise<string> =>
    threads.hash({ password: prepared(password), parameters });
  let decoy: Promise<string> | undefined;

  return {
    hash,
    async verify(stored, password) {
      if (stored !== undefined) return threads.verify({ stored, password: prepared(password) });
      decoy ??= hash('no account has this password').catch((error: unknown) => {
        decoy = undefined;
        throw error;
      });
      await threads.verify({ stored: await decoy, password: prepared(password) });
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
const prepared = (password: string): string => password.normalize('NFKC');

/** Milliseconds without a login after which a thread ends; idle ones do not hold the process. */
const idleTimeout = 30_000;

interface Threads {
  hash(task: HashTask): Promise<string>;
  verify(task: VerifyTask): Promise<boolean>;
}

const noBytes = { ofKey: 0, ofAll: 0 };

function gateLimits({
  concurrency,
  maxWaiting = 256,
  maxWaitMs = 2_000,
}: PasswordHasherOptions): GateLimits {
  const width = concurrency ?? usualConcurrency();
  return {
    width,
    perKey: width,
    maxWaitMs,
    maxWaiting: { ofKey: Math.max(4, Math.ceil(maxWaiting / 4)), ofAll: maxWaiting },
    maxBytes: noBytes,
  };
}

const busy = (): Error =>
  errors.UNAVAILABLE({
    message: 'Too many passwords are being checked at once: try again in a moment',
    retryAfter: 2,
  });

/** Work that no request has asked for waits in one line with itself. */
const whoAsks = (): string => {
  const address = currentAccount()?.address;
  return address === undefined ? 'platform' : addressKey(address);
};

/** Each task runs in a thread of its own. */
function createThreads(limits: GateLimits): Threads {
  const gate = new FairGate(() => limits, busy);
  const pool = new Piscina({
    filename: new URL('hash-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: limits.width,
    idleTimeout,
    recordTiming: false,
  });

  async function run<Result>(name: string, task: object): Promise<Result> {
    const key = whoAsks();
    await gate.enter(key);
    try {
      return (await pool.run(task, { name })) as Result;
    } finally {
      gate.leave(key);
    }
  }

  return {
    hash: (task) => run('hashPassword', task),
    verify: (task) => run('verifyPassword', task),
  };
}
