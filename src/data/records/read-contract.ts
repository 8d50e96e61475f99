/** What reads are told of what is asked for, and what those are told who keep an answer current (contract: store.ts). */
import type { Caller } from '../../kernel/caller.ts';
import type { LiveFilter, LiveRead } from '../../kernel/operations/live-read.ts';
import type { SelectedFields } from '../../kernel/operations/operation-input.ts';
import type { GoneRecord } from '../../kernel/permissions.ts';
import type { Condition } from '../conditions/condition.ts';

export interface ReadOptions {
  /** Relation paths, dotted for depth: `author.company`. */
  readonly populate?: readonly string[];
  readonly scope?: string;
  /** Records in the trash instead, with `deletedAt`. For operators only. */
  readonly deleted?: boolean;
  /** Fields that will be looked at, here and in what is populated: others may be left out, and are where that saves work. All unless set. */
  readonly only?: SelectedFields;
  /**
   * The fields of `only` and no others, in their order: what is not there or not for the caller is null, and a relation
   * of which fields are requested is a record even where its id alone is known.
   */
  readonly exactly?: boolean;
}

/**
 * `granted`: the caller was offered this in another way than by the client routes of the schema (a
 * custom endpoint), so that their switches do not count. Permissions on rows always do.
 */
export interface Grant {
  readonly granted?: boolean;
  /** An action of one's own on the records: in the place of `edit` and `delete`, and beside `read`. */
  readonly action?: string;
  /** An action on a record, of whichever schema; 403 without it. */
  readonly needs?: NeededAction;
  /**
   * For reads: the schema itself is offered in another way than by its client routes, and nothing that its relations lead
   * to. `content`: those records alone whose content the caller may have, where that is asked beside `read` (files).
   */
  readonly offered?: 'read' | 'content';
  /** Fields whose values are from who made the offer: their links may lead to what the caller cannot read. */
  readonly authored?: ReadonlySet<string>;
}

export interface NeededAction {
  readonly schema: string;
  readonly id: string;
  readonly action: string;
  /** Where the request names the record. */
  readonly place: string;
}

export interface RecordAccess {
  /** `all`: whatever is there; `some`: each record must be asked about. Throws 401 and 404 as `list` does. */
  readable(caller: Caller, schema: string): Promise<'all' | 'some'>;
  /** Whether `get` would answer the record now. Throws 401, 404 for the schema, 503 while nobody can tell. */
  mayRead(caller: Caller, schema: string, id: string): Promise<boolean>;
  /**
   * Whether there is such a record now with which the caller may do this, whatever client routes offer: by an action of its
   * type, and for reading, editing and deleting as its owner too. Throws 400 for an action that there is not.
   */
  mayAct(caller: Caller, schema: string, action: string, id: string): Promise<boolean>;
  /** Whether the caller could read a record right before it was deleted, and `gone.relations` with it. */
  couldRead(caller: Caller, schema: string, id: string, gone: GoneRecord): Promise<boolean>;
}

/** A relation, or a list of them, and a record that it may lead to. */
export interface VisibleLink {
  readonly field: string;
  readonly id: string;
  readonly scope?: string | undefined;
}

/** The first records of a list that is kept current. */
export interface LiveOptions extends ReadOptions, Omit<Grant, 'authored'> {
  readonly filter: Condition;
  readonly sort?: readonly string[];
  /** Records, 25 unless set, at most 1,000. */
  readonly limit?: number;
}

export interface LiveRecords {
  /** The list, to be read again whenever it may have changed: by `select`, with what the caller may see at that time. */
  live(
    caller: Caller,
    schema: string,
    options: LiveOptions,
  ): Promise<Extract<LiveRead, { kind: 'rows' }>>;
  /** Which of the records fit which of the filters, whoever may see them: what changed is asked about where it may belong. */
  fitting(
    schema: string,
    ids: readonly string[],
    filters: readonly LiveFilter[],
  ): Promise<LiveFitting>;
}

/**
 * Records by their ids, as JSON: as they read in lists with an `order`, for those who listen to these and for nobody else.
 * Without the records, of many that changed at once.
 */
export type FittingRecords = ReadonlyMap<string, string | undefined>;

export interface LiveFitting {
  readonly all: FittingRecords;
  /** For each of the filters. A record is as it was when it was tested. */
  readonly byFilter: readonly FittingRecords[];
}
