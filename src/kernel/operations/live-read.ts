/**
 * What an operation reads, for those who listen to its answer instead of asking again and again. The operation says it
 * (`Operation.live`); surfaces keep it current. Every reading asks anew for what its caller may see.
 */
import type { Caller } from '../caller.ts';
import type { DecodedInput } from './operation-input.ts';

/** A record of an answer. */
export interface LiveRow {
  readonly id: string;
  /** The record as JSON, as the caller may see it. */
  readonly json: string;
}

/** Tests of records; equal keys are the same tests. What they are is the record engine's business. */
export interface LiveFilter {
  readonly key: string;
}

/** By what records of a list are ordered; the last one is the id. Texts are compared as they are. */
export interface LiveTerm {
  readonly field: string;
  readonly kind: 'text' | 'number';
  readonly descending: boolean;
}

/** The first records of a list, in its order. */
export interface LiveRows {
  /** Records at most. */
  readonly limit: number;
  /** In the order of the ids, which can be compared as texts. */
  readonly byId: boolean;
  /**
   * Set where a record reads the same for all who may listen, and says by itself where it stands: then a record that is
   * read for one list is as it is in each.
   */
  readonly order?: readonly LiveTerm[] | undefined;
  /** Absent: any record of the schema may belong to the list. */
  readonly filter?: LiveFilter | undefined;
  all(): Promise<readonly LiveRow[]>;
  /** Those of the records that belong to the list now. */
  among(ids: readonly string[]): Promise<readonly LiveRow[]>;
}

/** A record. */
export interface MadeFrom {
  readonly schema: string;
  readonly id: string;
}

interface LiveFacts {
  /** All that is asked for: equal keys ask the same. */
  readonly key: string;
  /** Who asks, for bounds of what one caller may keep. */
  readonly asker?: string | undefined;
  /** Callers of one audience are answered the same. */
  readonly audience: string;
  /** Set where the answer hangs on permissions or roles of this user, or of all visitors: what changes about these may change it. */
  readonly rightsOf?: string | undefined;
  /** Whose records the answer is about. */
  readonly schema: string;
  /** Schemas beside it whose records have a part in the answer. */
  readonly related: ReadonlySet<string>;
  /**
   * What the question itself was made from: when this record changes, this asker has to ask anew. Others may have asked
   * the same, from records of their own.
   */
  readonly madeFrom?: MadeFrom | undefined;
  /** Aborted once the operation itself says something else, or is gone: then it has to be asked anew. */
  readonly ends?: AbortSignal | undefined;
}

/** Reading rejects as the operation itself does, and with `AudienceChanged`. */
export type LiveRead =
  | (LiveFacts & { readonly kind: 'rows'; readonly rows: LiveRows })
  /** The whole answer as JSON, for what is worked out from many records. */
  | (LiveFacts & { readonly kind: 'value'; value(): Promise<string> });

/** Who sees what is divided otherwise than when the question was asked. */
export class AudienceChanged extends Error {
  override readonly name = 'AudienceChanged';
}

/** Throws what the operation itself would throw, and 400 for input that cannot be kept current. */
export type OpenLiveRead = (caller: Caller, input: DecodedInput) => Promise<LiveRead>;
