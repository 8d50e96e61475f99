/**
 * Reads that requests ask in the same turn of the event loop, answered by one statement: any statement costs PostgreSQL
 * some 20 us before it looks for anything (docs/decisions/507-gathered-reads.md).
 */
import { errors } from '../errors.ts';
import {
  currentAccount,
  offAccount,
  onAccount,
  type RequestAccount,
} from '../request-account/request-account.ts';
import { codeOf } from './failures.ts';

export interface GatheredReadOptions<Q, A> {
  /** Questions of one statement, at most. */
  readonly max: number;
  /** Whether one statement answers both. */
  isLike(first: Q, other: Q): boolean;
  /** Sends the statement, as a `gathered` one; its answers are in the order of the questions. */
  read(questions: readonly [Q, ...Q[]]): Promise<readonly A[]>;
}

interface Asked<Q, A> {
  readonly question: Q;
  readonly account: RequestAccount | undefined;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
}

type Batch<Q, A> = [Asked<Q, A>, ...Asked<Q, A>[]];

/**
 * Asks a question together with those of the same turn, at whose end the statement is sent: not for transactions. It has
 * as much time as the request that asked first, and counts for each of them. When it fails, they are asked one by one, unless
 * the database is not available.
 */
export function createGatheredRead<Q, A>(
  options: GatheredReadOptions<Q, A>,
): (question: Q) => Promise<A> {
  const { max, isLike } = options;
  let open: Batch<Q, A> | undefined;
  const close = (batch: Batch<Q, A>): void => {
    if (open !== batch) return;
    open = undefined;
    send(options, batch);
  };
  return (question) => {
    const account = currentAccount();
    const batch = open && isLike(open[0].question, question) ? open : undefined;
    // The statement itself is counted for the first one.
    const refusal = batch && account?.take('statements');
    if (refusal) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      const asked = { question, account, resolve, reject };
      if (batch) {
        if (batch.push(asked) >= max) close(batch);
        return;
      }
      if (open) close(open);
      const begun: Batch<Q, A> = [asked];
      open = begun;
      setImmediate(() => close(begun));
    });
  };
}

function send<Q, A>(options: GatheredReadOptions<Q, A>, batch: Batch<Q, A>): void {
  const [first, ...others] = batch;
  const questions = [first.question, ...others.map(({ question }) => question)] as const;
  onAccountOf(first.account, () => options.read(questions)).then(
    (answers) => batch.forEach(({ resolve }, n) => void resolve(answers[n] as A)),
    (error: unknown) => {
      // Where the database is not there, it is not there for any of them.
      const isFinal = others.length === 0 || codeOf(error) === errors.UNAVAILABLE.code;
      for (const one of batch) {
        if (isFinal) one.reject(error);
        else send(options, [one]);
      }
    },
  );
}

const onAccountOf = <T>(account: RequestAccount | undefined, work: () => T): T =>
  account ? onAccount(account, work) : offAccount(work);
