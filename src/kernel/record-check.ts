/**
 * Decisions about single records by what is written about each of them. The statement that reads the record loads that
 * at the same moment, and is the same one for many callers: who may do what is worked out here, and not by PostgreSQL
 * (docs/decisions/549-records-are-read-with-what-decides-about-them.md).
 */

/** Whether a caller may act on one record. Where `kind` and `values` are the same, one statement serves several. */
export interface RecordCheck {
  readonly kind: CheckKind;
  readonly values: readonly unknown[];
  /** `undefined`: what was loaded does not say it. */
  decide(found: FoundForCheck): boolean | undefined;
}

/** The texts of the statements of a kind of checks; one object for all of them. */
export interface CheckKind {
  /** The same for the same texts. */
  readonly key: string;
  text(place: CheckPlace): {
    /** One row. */
    readonly state: SqlRows;
    /** Rows about the record. */
    readonly written: SqlRows;
  };
}

/** Where the parts of a check stand in a statement, as SQL. */
export interface CheckPlace {
  /** The id of the record, a uuid. */
  readonly id: string;
  /** Placeholders of `RecordCheck.values`, in their order. */
  readonly values: readonly string[];
}

export interface SqlRows {
  readonly query: string;
  /** Types of its columns by their names, in their order. */
  readonly columns: Readonly<Record<string, string>>;
}

/** What a statement found for a check: objects that have the columns. */
export interface FoundForCheck {
  readonly state: object;
  readonly written: readonly object[];
}
