/** What tells the rows of a table apart, and so makes their ids. */
import type { KeyType } from '../../../../data/schema/language/record-key.ts';
import type { QualifiedName } from '../../../../data/schema/mapping/table-mapping.ts';
import type { CatalogueColumn, CatalogueConstraint, CatalogueRelation } from './catalogue.ts';
import type { DescribedKey } from './inferred.ts';
import { type ServedType, servedType } from './types.ts';

export interface KeyChoice {
  readonly columns: readonly string[];
  readonly types: readonly KeyType[];
  readonly origin: 'primary' | 'unique' | 'none';
  /** Of the constraint or index. */
  readonly name: string;
}

const noKey: KeyChoice = { columns: [], types: [], origin: 'none', name: '' };

/** Ids are short; a key of many columns is none that anybody would write down. */
const MAX_PARTS = 8;

/** The primary key, else the first unique index over columns that always have a value. */
export function keyChoice(relation: CatalogueRelation): KeyChoice {
  const primary = relation.constraints.find(({ kind }) => kind === 'primary');
  if (primary) return choiceOf(relation, { ...primary, origin: 'primary' }) ?? noKey;
  for (const index of relation.indexes) {
    if (!index.unique || index.partial || index.columns.length === 0) continue;
    const choice = choiceOf(relation, { ...index, origin: 'unique' });
    if (choice) return choice;
  }
  return noKey;
}

interface Candidate {
  readonly name: string;
  readonly columns: readonly string[];
  readonly origin: KeyChoice['origin'];
}

function choiceOf(
  relation: CatalogueRelation,
  { name, columns, origin }: Candidate,
): KeyChoice | undefined {
  const types = columns.map((column) => {
    const found = relation.columns.find((one) => one.name === column && one.notNull);
    const served = found && servedType(found.type);
    return served && 'form' in served ? served.keyType : undefined;
  });
  if (
    columns.length === 0 ||
    columns.length > MAX_PARTS ||
    !types.every((type): type is KeyType => type !== undefined)
  )
    return undefined;
  return { columns, types, origin, name };
}

/* Foreign keys as relations between schemas, as far as they can be. */

export interface InferContext {
  /** The relation of that name, when it is among those that were read. */
  relation(name: QualifiedName): CatalogueRelation | undefined;
  /** The schema that is, or would be, declared over a relation. */
  schemaName(name: QualifiedName): string | undefined;
}

/** A column that can be served, under the name of its field. */
export interface ServedColumn {
  readonly column: CatalogueColumn;
  readonly served: ServedType;
  readonly field: string;
}

/** A foreign key, and the field that becomes a Relation by it. */
export interface Link {
  readonly constraint: CatalogueConstraint;
  readonly described: DescribedKey;
  readonly relation:
    | { readonly field: string; readonly model: string; readonly target: QualifiedName }
    | undefined;
}

export function linksOf(
  relation: CatalogueRelation,
  named: readonly ServedColumn[],
  context: InferContext,
): readonly Link[] {
  const used = new Set<string>();
  return relation.constraints.flatMap((constraint): Link[] => {
    const { target, name, columns } = constraint;
    if (constraint.kind !== 'foreign' || !target) return [];
    const found = relationBy(constraint, named, context);
    const described = { name, columns, target };
    if (typeof found === 'string')
      return [{ constraint, described: { ...described, reason: found }, relation: undefined }];
    if (used.has(found.field)) {
      const reason = 'another foreign key of the same column became the relation';
      return [{ constraint, described: { ...described, reason }, relation: undefined }];
    }
    used.add(found.field);
    return [
      {
        constraint,
        described: { ...described, field: found.field },
        relation: { ...found, target },
      },
    ];
  });
}

/** The relation that a foreign key makes, or why it makes none: records refer to each other by their ids. */
function relationBy(
  { columns, target }: CatalogueConstraint,
  named: readonly ServedColumn[],
  context: InferContext,
) {
  const [column] = columns;
  if (!target) return 'it refers to nothing';
  if (columns.length !== 1) return 'it has several columns; a Relation is one field';
  const served = named.find((one) => one.column.name === column);
  if (!served) return 'its column is not served';
  const other = context.relation(target);
  const model = context.schemaName(target);
  if (!other || model === undefined)
    return 'the table that it refers to is not among those that are read';
  const key = keyChoice(other);
  const sameType = served.served.keyType === key.types[0];
  if (key.columns.length !== 1 || key.columns[0] !== target.columns[0] || !sameType) {
    return 'it does not refer to the column from which the ids there are made';
  }
  return { field: served.field, model };
}
