/** Who owns new records, and how a statement writes it down: in columns of theirs, or as a stored relation. */
import { identifier } from '../../../kernel/database/sql.ts';
import type {
  CachedOwner,
  CreationRule,
  Owner,
  RecordTuples,
} from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Parameters } from '../sql/prepared-statements.ts';

/** The owner of new records, and how it is written down. */
export interface Ownership {
  readonly owner: Owner;
  readonly tuples: RecordTuples;
  /** What the records must fulfil, if it is not the schema alone that says who may create. */
  readonly rule?: CreationRule | undefined;
  /** Set where nothing was asked: then nothing is written unless it holds, and `asked` says what is so. */
  readonly cached?: {
    readonly holds: CachedOwner['holds'];
    readonly tells: boolean;
    readonly asked: () => Promise<Ownership>;
  };
}

/** What of it decides the text of a statement. */
export function ownershipShape(ownership: Ownership | undefined): string {
  if (ownership === undefined) return '';
  if (!ownership.owner.inRecord) return 'tuple';
  if (!ownership.cached) return 'record';
  return ownership.cached.tells ? 'cached' : 'silent';
}

/** What a new record says about its owner: values of the statement of a single one. */
export function ownerValues(ownership: Ownership | undefined): readonly unknown[] {
  if (!ownership?.owner.inRecord) return [];
  const { owner, tuples, cached } = ownership;
  return [
    ...tuples.columns(owner).map(({ value }) => value),
    `${owner.type}:${owner.id}`,
    ...(cached ? [cached.holds.value] : []),
  ];
}

/** The owner tuples of the new rows `r`. They are told with the records, in the payload of the same event. */
export function ownerRows(
  { name, table }: CompiledSchema,
  { owner, tuples }: Ownership,
  { next }: Parameters,
  place?: string,
) {
  if (owner.inRecord) {
    const text = place ?? next(`${owner.type}:${owner.id}`);
    return { tuples: '', payload: `jsonb_build_object('owner', ${text}::text)` };
  }
  const places = { type: next(owner.type), id: next(owner.id) };
  const parts = tuples.own({ rows: 'r', schema: name, table, actor: '$1' }, places);
  return {
    tuples: parts.map((part) => `, ${part}`).join(''),
    payload: `jsonb_build_object('owner', ${places.type}::text || ':' || ${places.id}::text, 'ownerStored', true)`,
  };
}

/** Columns in which new records say who owns them. */
export function ownerColumns(ownership: Ownership | undefined, { next }: Parameters) {
  const columns = ownership?.owner.inRecord ? ownership.tuples.columns(ownership.owner) : [];
  return {
    names: columns.map(({ name }) => identifier(name)),
    values: columns.map(({ type, value }) => `${next(value)}::${type}`),
  };
}
