/**
 * What the rest of the module asks of the engine. Every answer is computed from
 * the stored tuples and definitions at the time of the call, or from what the
 * database says has not changed since: a grant or a revocation holds for the
 * next question on every node.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { PenstockError } from '../../../kernel/errors.ts';
import type { MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import type { FoundForCheck, RecordCheck } from '../../../kernel/record-check.ts';
import type { RecordRule } from '../model/expression.ts';
import type { ObjectRef, SubjectRef } from '../model/grammar.ts';
import type { Model, Name } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import type { DatabaseSnapshot } from './grant-cache/change-tracker.ts';

/** "May `subject` do `action` on `resource`?" */
export interface Question {
  readonly subject: SubjectRef;
  readonly action: string;
  readonly resource: ObjectRef;
}

/** A question about a record, for the statement that reads it. */
export interface RecordProbe extends Pick<RecordCheck, 'kind' | 'values'> {
  probeOf(found: FoundForCheck): Probe;
}

/** "Which resources of `type` may `subject` do `action` on?" */
export interface ResourceQuestion {
  readonly subject: SubjectRef;
  readonly action: string;
  readonly type: string;
}

/** "Which rows?", or with `ids`: which of these? Then the answer says nothing about others. */
export interface RowQuestion extends ResourceQuestion {
  readonly ids?: readonly string[] | undefined;
}

/** "Which subjects of `type` may do `action` on `resource`?" */
export interface SubjectQuestion {
  readonly resource: ObjectRef;
  readonly action: string;
  readonly type: string;
  /** Set for sets of those who stand in this relation to an object of the type. */
  readonly relation?: string;
}

export interface AskOptions {
  /** What conditions may look at; empty unless given. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Tuples that count for this question only; at most 100, valid like stored ones. */
  readonly contextual?: readonly Tuple[];
  /**
   * The question is about something that is gone, and they went with it: up to 1,000, of which those that fit no more count
   * for nothing. What a rule said of a record that is not there is not known.
   */
  readonly gone?: true;
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

/** An answer of its own among several. */
export interface Answer {
  readonly allowed: boolean;
  /** Why there is none: a value is missing, or too much hangs on it. */
  readonly undecided?: PenstockError;
}

/** A change after which a denied question would be allowed. */
export type Suggestion = TupleSuggestion | RuleSuggestion;

export interface TupleSuggestion {
  /** The tuple is written, is deleted, has its condition fulfilled, or is a matter of a field of its resource. */
  readonly kind: 'write' | 'delete' | 'condition' | 'field';
  readonly tuple: Tuple;
  /** Of `field`: its name. */
  readonly field?: string;
  /** Of `field`: whether it says the tuple, or says it no longer. */
  readonly fits?: boolean;
}

/** The record is changed, so that it fits a rule or fits it no longer. */
export interface RuleSuggestion {
  readonly kind: 'rule';
  readonly record: ObjectRef;
  readonly rule: RecordRule;
  readonly fits: boolean;
}

/** A reason with what came of the question: `undecided` exactly where a check throws `CONTEXT_MISSING`. */
export interface Explanation extends Reason {
  readonly outcome: 'allowed' | 'denied' | 'undecided';
  /** What the question named: an action, or a relation. */
  readonly kind: Name['kind'];
  /** The subject may not act for the scope that the question named: nothing else was asked. */
  readonly refusedScope?: ObjectRef;
  /** Names of values that an undecided question hangs on. */
  readonly missing: readonly string[];
  /** Of a denial, where it was asked for: the nearest misses first. */
  readonly wouldAllow: readonly Suggestion[];
}

export interface ExplainOptions extends AskOptions {
  /** Whether to look for what would allow it. */
  readonly suggest?: boolean;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Goes on where this page ends; absent at the end. */
  readonly cursor?: string;
  /** Set where something was left out because a value was missing. */
  readonly incomplete?: true;
}

export interface PageOptions extends AskOptions {
  /** 1 to 1,000. */
  readonly limit: number;
  readonly cursor?: string;
}

/**
 * The engine over one model. `database` may be a transaction.
 * Throws 400 for unknown types and actions, and the errors of limits.ts where there is no answer.
 */
export interface Engine {
  readonly model: Model;
  /** Answers in the order of the questions, from one load. At most 50. */
  check(
    database: Queryable,
    questions: readonly Question[],
    options?: AskOptions,
  ): Promise<readonly boolean[]>;
  /** The same, where one that cannot be answered does not stand in the way of the others. */
  answers(
    database: Queryable,
    questions: readonly Question[],
    options?: AskOptions,
  ): Promise<readonly Answer[]>;
  /**
   * The same for one question by one short statement, with the revision of the definitions at that moment; `undefined`
   * without a statement when that could not decide it. Unknown types and actions are left to `check`.
   */
  probe(
    database: Queryable,
    question: Question,
    options?: AskOptions,
    reach?: ProbeReach,
  ): Promise<Probe | undefined>;
  /** The same for several questions by one statement, at one moment for all. */
  probeAll(
    database: Queryable,
    questions: readonly Question[],
    options: AskOptions | undefined,
    reach: 'near' | 'held',
  ): Promise<readonly Probe[] | undefined>;
  /** By as little for a record, without a statement; `undefined` where that could not decide it. */
  recordProbe(
    database: Queryable,
    question: Question,
    reach: 'near' | 'held',
  ): MaybePromise<RecordProbe | undefined>;
  explain(database: Queryable, question: Question, options?: ExplainOptions): Promise<Explanation>;
  /**
   * Ids in byte order. Resources whose answer hangs on a value that was not given are left out; of a public action
   * the list holds the objects that stand in any tuple. A page may be short when few candidates hold: only a page
   * without cursor is the last.
   */
  listResources(
    database: Queryable,
    question: ResourceQuestion,
    options: PageOptions,
  ): Promise<Page<string>>;
  /**
   * Subjects as `Type:id`, in byte order. `Type:*` stands for everybody of the type who is not named on the way to
   * the resource; whoever is named is listed on their own. Pages as with `listResources`.
   */
  listSubjects(
    database: Queryable,
    question: SubjectQuestion,
    options: PageOptions,
  ): Promise<Page<string>>;
  /** Relations in which the subject stands directly on the resource. */
  directRelations(
    database: Queryable,
    subject: SubjectRef,
    resource: ObjectRef,
  ): Promise<readonly string[]>;
  /**
   * The rows of a type on which the subject may act, for the record engine's own statement. With `catchUp` (of
   * `GrantCache`) what was kept is used, and the predicate can be confirmed. Without it, as in a transaction, nothing is
   * taken from memory and nothing kept.
   */
  predicate(
    database: Queryable,
    question: RowQuestion,
    catchUp?: () => Promise<DatabaseSnapshot>,
  ): MaybePromise<RowPredicate>;
}

/**
 * How far one short statement looks: what is written about the object where that is very little (`near`), the same
 * beside what the subject is known to reach (`held`), what of it the question can hang on (`object`), or also what that
 * leads to (`graph`).
 */
export type ProbeReach = 'near' | 'held' | 'object' | 'graph';

/** What one short statement found out. */
export interface Probe {
  /** Of the resource definitions, when it looked: `allowed` is right for a model of this revision alone. */
  readonly revision: number;
  /** Absent when the statement does not decide it. */
  readonly allowed: boolean | undefined;
  /** Whether no more was there than it loads. */
  readonly whole: boolean;
  /** Whether the answer rests on other objects than the one that is asked about. */
  readonly leads?: boolean;
}
