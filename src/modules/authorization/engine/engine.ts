/**
 * What the rest of the module asks of the engine. Every answer is computed from
 * the stored tuples and definitions at the time of the call, or from what the
 * database says has not changed since: a grant or a revocation holds for the
 * next question on every node.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import type { ObjectRef, SubjectRef } from '../model/grammar.ts';
import type { Model } from '../model/model.ts';
import type { Moment } from './follower.ts';
import type { Probe } from './probe.ts';
import type { Tuple } from './tuple.ts';

/** "May `subject` do `action` on `resource`?" */
export interface Question {
  readonly subject: SubjectRef;
  readonly action: string;
  readonly resource: ObjectRef;
}

/** "Which resources of `type` may `subject` do `action` on?" */
export interface ResourceQuestion {
  readonly subject: SubjectRef;
  readonly action: string;
  readonly type: string;
}

/** "Which subjects of `type` may do `action` on `resource`?" */
export interface SubjectQuestion {
  readonly resource: ObjectRef;
  readonly action: string;
  readonly type: string;
}

export interface AskOptions {
  /** What conditions may look at; empty unless given. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Tuples that count for this question only; at most 100, valid like stored ones. */
  readonly contextual?: readonly Tuple[];
}

/** Why the answer is as it is: one line of reasoning with what it rests on. */
export interface Reason {
  readonly allowed: boolean;
  /** For example `Doc:1 read` or `Doc:1 owner->read`. */
  readonly about: string;
  /** In words, also what is missing for a denial. */
  readonly because: string;
  /** The deciding tuple, if this line rests on one. */
  readonly tuple?: string;
  readonly parts: readonly Reason[];
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Goes on where this page ends; absent at the end. */
  readonly cursor?: string;
}

export interface PageOptions extends AskOptions {
  /** 1 to 1,000. */
  readonly limit: number;
  readonly cursor?: string;
}

/**
 * The engine over one model. `database` may be a transaction.
 * Throws 400 for unknown types and actions, and the errors of errors.ts where there is no answer.
 */
export interface Engine {
  readonly model: Model;
  /** Answers in the order of the questions, from one load. At most 50. */
  check(database: Queryable, questions: readonly Question[], options?: AskOptions): Promise<readonly boolean[]>;
  /**
   * The same for one question by a single lookup, with the revision of the definitions at that moment; `undefined`
   * without a statement when that could not decide it. Unknown types and actions are left to `check`.
   */
  probe(database: Queryable, question: Question, options?: AskOptions): Promise<Probe | undefined>;
  explain(database: Queryable, question: Question, options?: AskOptions): Promise<Reason>;
  /**
   * Ids in byte order. Resources whose answer hangs on a value that was not given are left out; of a public action
   * the list holds the objects that stand in any tuple. A page may be short when few candidates hold: only a page
   * without cursor is the last.
   */
  listResources(database: Queryable, question: ResourceQuestion, options: PageOptions): Promise<Page<string>>;
  /**
   * Subjects as `Type:id`, in byte order. `Type:*` stands for everybody of the type who is not named on the way to
   * the resource; whoever is named is listed on his own. Pages as with `listResources`.
   */
  listSubjects(database: Queryable, question: SubjectQuestion, options: PageOptions): Promise<Page<string>>;
  /** Relations in which the subject stands directly on the resource. */
  directRelations(database: Queryable, subject: SubjectRef, resource: ObjectRef): Promise<readonly string[]>;
  /**
   * The rows of a type on which the subject may act, for the record engine's own statement. With `catchUp` (of
   * `KeptReach`) what was kept is used, and the predicate can be confirmed. Without it, as in a transaction, nothing is
   * taken from memory and nothing kept.
   */
  predicate(database: Queryable, question: ResourceQuestion, catchUp?: () => Promise<Moment>): Promise<RowPredicate>;
}
