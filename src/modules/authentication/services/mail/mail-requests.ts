/**
 * Requests for a mail, by people who have not signed in. The request itself only stores a job, the same
 * for every address; whether there is an account is looked at in the job. So neither the answer nor its
 * time tells who has an account.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import type { Kernel } from '../../../../host/kernel.ts';
import { addressKey } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../../../kernel/jobs/jobs.ts';
import type { DurableLimits } from '../../../../kernel/limits/durable-limits.ts';
import type { LimitBucket } from '../../../../kernel/limits/limits.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import { authErrors } from '../../errors.ts';
import { type Credentials, credentialsByEmail } from '../../queries.ts';
import { type Origin, storedUserAgent } from '../origin.ts';
import type { SecurityAction, SecurityLog } from '../security-log.ts';
import { allOrNothing } from '../transactions.ts';

/*
 * Keeps mail-sending routes from flooding anybody. What is counted here never depends on whether an
 * account exists, so that an answer tells nothing.
 */

export interface MailGuard {
  /** Lets one request through per account, place and threshold; throws 429 with `Retry-After`. */
  enter(kind: string, email: string, address: string): Promise<void>;
  /**
   * Whether one more code may be made for this address. Each code may be guessed a few times, so the
   * number of codes bounds the number of guesses, from however many places they come.
   */
  mayIssueCode(email: string): Promise<boolean>;
}

/** Five tries with each: no more than a hundred guesses in a day (NIST SP 800-63B-4, 3.2.2). */
const codes: readonly LimitBucket[] = [
  { name: 'authentication.codes', requests: 10, seconds: 60 * 60 },
  { name: 'authentication.codes.day', requests: 20, seconds: 24 * 60 * 60 },
];

export function createMailGuard(limits: DurableLimits, thresholdMs: () => number): MailGuard {
  return {
    async enter(kind, email, address) {
      const bucket = {
        name: `authentication.resend.${kind}`,
        requests: 1,
        seconds: Math.max(1, Math.ceil(thresholdMs() / 1000)),
      };
      const { allowed, resetMs } = await limits.consume(
        bucket,
        sha256(`${email}\n${addressKey(address)}`),
      );
      if (!allowed)
        throw authErrors.MESSAGE_TOO_SOON({ retryAfter: Math.max(1, Math.ceil(resetMs / 1000)) });
    },
    async mayIssueCode(email) {
      const states = await limits.consumeAll(
        codes.map((bucket) => ({ bucket, key: sha256(email), stops: true })),
      );
      return states.every(({ allowed }) => allowed);
    },
  };
}

type MailRequest =
  | 'verification'
  | 'passwordReset'
  | 'magicLink'
  | 'emailCode'
  | 'accountExists'
  | 'manyFailures';

/** What a request may say beside the address. */
interface MailRequestOptions {
  /** Where the link ends; allowed. */
  readonly redirectUri?: string;
  /** The registered app that asks, whose session the link opens: the link itself may be followed in a browser. */
  readonly clientId?: string;
  /** The token that the caller got, for a code that works only together with it. */
  readonly token?: string;
}

/**
 * Writes the mail of one kind to an account that may be sent mail; answers the id of the message. Nothing
 * when none was sent: then all else that it did is taken back, so that what was mailed before still works.
 */
type MailWriter = (
  transaction: Transaction,
  account: Credentials & { readonly email: string },
  requested: MailRequestOptions,
) => Promise<string | undefined>;

export interface MailRequests {
  /**
   * Stores the request; joins the ambient transaction. `email` is canonical. With an `origin` it is somebody's who asks,
   * and stands in the audit log where its kind is `audited`.
   */
  request(
    kind: MailRequest,
    email: string,
    requested?: MailRequestOptions,
    origin?: Origin,
  ): Promise<void>;
  /** Says how the mails of a kind are written. */
  handle(kind: MailRequest, writer: MailWriter): void;
  readonly job: JobDefinition;
}

/** Requests that are written down: by the job, since a row that names the account would tell by its time that there is one. */
const audited: Partial<Record<MailRequest, SecurityAction>> = { passwordReset: 'forgotPassword' };

const jobName = 'authentication.write-mail';

/** What a job holds, sealed: job tables keep what was done for a while, and an address is somebody's own. */
interface Asked extends MailRequestOptions {
  readonly kind: MailRequest;
  readonly email: string;
  readonly origin?: Pick<Origin, 'address' | 'userAgent'>;
}

/** Until the answer to the request is surely out: what follows costs more for an account that exists. */
const ANSWER_MS = 15;
const sealContext = 'authentication:mail-request';

interface Dependencies extends Pick<Kernel, 'database' | 'jobs' | 'secrets'> {
  readonly securityLog: SecurityLog;
}

export function createMailRequests({
  database,
  jobs,
  secrets,
  securityLog,
}: Dependencies): MailRequests {
  const writers = new Map<string, MailWriter>();
  const seal = (asked: Asked): string => secrets.seal(JSON.stringify(asked), sealContext);
  const open = (sealed: string): Asked => JSON.parse(secrets.open(sealed, sealContext)) as Asked;
  const note = async ({ kind, origin }: Asked, userId: string | undefined): Promise<void> => {
    const action = audited[kind];
    if (action !== undefined && origin !== undefined)
      await securityLog.note({ action, userId, origin });
  };
  return {
    async request(kind, email, requested = {}, origin) {
      const from = origin && {
        origin: {
          address: origin.address,
          userAgent: storedUserAgent(origin.userAgent) ?? undefined,
        },
      };
      await jobs.enqueue(jobName, { sealed: seal({ kind, email, ...requested, ...from }) });
    },
    handle: (kind, writer) => void writers.set(kind, writer),
    job: defineJob({
      name: jobName,
      data: Type.Object({ sealed: Type.String() }),
      async handler({ sealed }) {
        await sleep(ANSWER_MS);
        const asked = open(sealed);
        const { kind, email, origin: _origin, ...requested } = asked;
        const writer = writers.get(kind);
        if (!writer) return;
        await database.transaction(async (transaction) => {
          const account = await credentialsByEmail(transaction, email);
          await note(asked, account?.userId);
          if (!account?.active || account.email === null || account.isAnonymous) return;
          const addressee = { ...account, email: account.email };
          await allOrNothing(database, (part) => writer(part, addressee, requested));
        });
      },
    }),
  };
}
