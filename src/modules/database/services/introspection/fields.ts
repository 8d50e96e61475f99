/** One column as a field of the schema language. */
import type { FieldInput, FieldOptions } from '../../../../data/schema/language/definition.ts';
import { MAX_INDEXED_TEXT } from '../../../../data/schema/language/parse-options.ts';
import type { CatalogueColumn, CatalogueRelation } from './catalogue.ts';
import { simpleRules } from './checks.ts';
import type { KeyChoice } from './keys.ts';
import type { Link } from './links.ts';
import type { ServedType } from './types.ts';

interface FieldParts {
  readonly column: CatalogueColumn;
  readonly served: ServedType;
  readonly key: KeyChoice;
  readonly link: Link | undefined;
}

export function fieldOf(relation: CatalogueRelation, { column, served, key, link }: FieldParts): FieldInput {
  const required =
    column.notNull && !column.hasDefault && !column.generated && !served.readOnly && !isMadeByUs(column, served, { key, link });
  const description = column.comment ?? served.field.description;
  const common = { ...(required && { required }), ...(description && { description }) };
  if (link?.relation) {
    const { onDelete } = link.constraint;
    // What must have a value cannot be emptied; the database refuses it then.
    const rule = onDelete === 'setNull' && column.notNull ? 'restrict' : onDelete;
    return { type: 'Relation', model: link.relation.model, ...common, ...(rule !== 'restrict' && { onDelete: rule }) };
  }
  const field: FieldOptions = { ...served.field, ...common };
  const ruled = withRules(field, relation, column);
  return { ...ruled, ...identityOf(relation, { column, key, field: ruled, required }) };
}

/** A UUID that is the whole key and refers to nothing is made by the platform when nobody gives one. */
const isMadeByUs = ({ name }: CatalogueColumn, { keyType }: ServedType, { key, link }: Pick<FieldParts, 'key' | 'link'>): boolean =>
  keyType === 'uuid' && key.columns.length === 1 && key.columns[0] === name && !link?.relation;

/** Adds the rules of the column and of its domain that the schema language can say. */
function withRules(field: FieldOptions, { constraints }: CatalogueRelation, { name, type }: CatalogueColumn): FieldOptions {
  const own = constraints.filter(({ kind, columns }) => kind === 'check' && columns.length === 1 && columns[0] === name);
  const quoted = /^[a-z_][a-z0-9_]*$/.test(name) ? [name, `"${name}"`] : [`"${name.replaceAll('"', '""')}"`];
  const rules = [
    ...type.checks.map((check) => simpleRules(check, ['VALUE'])),
    ...own.map(({ text }) => simpleRules(text ?? '', quoted)),
  ].filter((rule) => rule !== undefined);
  let result = field;
  for (const { validate, enum: values } of rules) {
    if (field.type === 'Number' && Object.keys(validate).length > 0) result = { ...result, validate: { ...result.validate, ...validate } };
    if (field.type === 'String' && values && !result.enum) result = { ...result, enum: values };
  }
  return result;
}

interface IdentityParts {
  readonly column: CatalogueColumn;
  readonly key: KeyChoice;
  readonly field: FieldOptions;
  readonly required: boolean;
}

/** `primaryKey` and `unique`, where they say no more than the table does: both imply a value, and a limit on text. */
function identityOf(
  relation: CatalogueRelation,
  { column, key, field, required }: IdentityParts,
): Pick<FieldOptions, 'primaryKey' | 'unique'> {
  const limited = field.type !== 'String' || (field.validate?.maxLength ?? Number.POSITIVE_INFINITY) <= MAX_INDEXED_TEXT;
  const fits = typeof field.type === 'string' && ['String', 'Number', 'Date', 'ObjectId'].includes(field.type);
  if (!required || !limited || !fits) return {};
  if (key.columns.length === 1 && key.columns[0] === column.name) return { primaryKey: true };
  const isUnique = relation.indexes.some(
    ({ unique, partial, columns }) => unique && !partial && columns.length === 1 && columns[0] === column.name,
  );
  return isUnique ? { unique: true } : {};
}
