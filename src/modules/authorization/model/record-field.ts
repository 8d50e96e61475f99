/** What records themselves say about who stands in a relation to them. */

/** A field of the records of a type that says who stands in a relation. */
export interface RecordField {
  /** Name of the field, and of its column. */
  readonly field: string;
  /** It holds a list. */
  readonly many: boolean;
  /** Type of the objects that it names. */
  readonly type: string;
  /**
   * Column of the type of what it names, where that differs from record to record; null: `type`. What stands in such
   * a column counts beside stored tuples, not instead of them.
   */
  readonly typeColumn?: string;
}

/** The relation in which the creator stands to a record (spec/authorization.md 5.6). */
export const ownerRelation = 'owner';

/** The columns of a record that say who owns it (services/owner-columns.ts). No field can have such a name. */
export const ownerColumn = {
  field: '@owner',
  many: false,
  type: 'User',
  typeColumn: '@ownerType',
} as const satisfies RecordField;
