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

export interface PasswordHasherOptions {
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

/**
 * Passwords that every guessing list starts with, so that nobody gets an account
 * behind one (OWASP ASVS 6.2.4). Only those long enough to pass a length rule are listed.
 */
const common: ReadonlySet<string> = new Set(
  `12345678 123456789 1234567890 0123456789 0987654321 87654321 987654321 11111111 111111111 1111111111 00000000 000000000 0000000000
  22222222 55555555 66666666 77777777 88888888 99999999 12341234 12344321 11223344 112233445566 123123123 123321123 147258369 159357456
  123456789a 123456789q 1234567a 12345678a a1234567 a12345678 a123456789 aa123456 aa12345678 abc12345 abc123456 abcd1234 abcd12345
  abcdefgh abcdefghi 1q2w3e4r 1q2w3e4r5t 1q2w3e4r5t6y 1qaz2wsx 1qaz2wsx3edc zaq12wsx zaq1zaq1 qazwsxedc qaz123wsx q1w2e3r4 q1w2e3r4t5
  qwertyui qwertyuiop qwerty12 qwerty123 qwerty1234 qwerty12345 qwertz123 azertyuiop asdfghjk asdfghjkl asdf1234 asdfasdf zxcvbnm1
  zxcvbnm123 1234qwer 123qweasd 123qweasdzxc qweasdzxc password password1 password12 password123 password1234 password! password1!
  passw0rd p@ssw0rd p@ssword p4ssw0rd pa55word pass1234 pass12345 passpass mypassword newpassword changeme changeme1 changeme123
  changeit letmein1 letmein123 welcome1 welcome12 welcome123 welcome1! iloveyou iloveyou1 iloveyou2 sunshine sunshine1 princess
  princess1 football football1 baseball baseball1 basketball superman superman1 batman123 spiderman starwars pokemon1 pokemon123
  trustno1 whatever jennifer michelle victoria danielle samantha alexander charlotte christian elizabeth jonathan patricia nicholas
  computer internet keyboard monkey123 dragon123 master123 shadow123 killer123 freedom1 liverpool chelsea1 barcelona realmadrid
  manchester mercedes corvette chocolate butterfly strawberry rainbow1 hello123 hellohello test1234 test12345 testtest testing1
  testing123 tester123 demo1234 guest1234 user1234 username admin123 admin1234 admin12345 admin123456 administrator adminadmin
  root1234 rootroot toor1234 default1 secret123 secret1234 supersecret qwe123qwe qwe12345 summer2023 summer2024 summer2025 winter2023
  winter2024 winter2025 spring2024 spring2025 autumn2024 january1 december google123 facebook facebook1 linkedin microsoft windows1
  samsung1 samsung123 android1 iphone123 minecraft fortnite1 callofduty playstation nintendo blink182 metallica slipknot nirvana1
  zxcvbnm, asd123asd aaaaaaaa aaaaaaaaaa abababab abcabcabc xxxxxxxx zzzzzzzz 1a2b3c4d a1b2c3d4 a1s2d3f4 z1x2c3v4 1z2x3c4v
  m4st3rk3y masterkey master1234 postgres postgresql mypass123 access14 godzilla1 cheese123 cookie123 banana123 orange123 purple123`
    .split(/\s+/)
    .filter((word) => word !== ''),
);

/** True for a password of the list, in any case and in any Unicode form. */
export const isCommonPassword = (password: string): boolean =>
  common.has(password.normalize('NFKC').toLowerCase());
