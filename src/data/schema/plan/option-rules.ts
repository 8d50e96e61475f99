/** What may be said about a schema over a table of others: the table stays as it is, so nothing that would change it. */
import type { PenstockError, Problem } from '../../../kernel/errors.ts';
import type { Declaration } from '../compile/declaration.ts';
import { deletedColumn, type TableLayout } from '../compile/layout.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import type { PlatformOptions } from '../language/definition.ts';
import {
  type AccessRule,
  columnType,
  type Field,
  type ObjectField,
  readRuleOf,
  writeRuleOf,
} from '../language/field.ts';
import { automaticFields, isNameLike, shortName } from '../language/names.ts';
import type { ResolvedOptions } from '../language/options.ts';
import { historyOf, softDeleteOf } from '../language/record-options.ts';
import { keyOf } from '../mapping/table-mapping.ts';

interface Checked {
  readonly tree: ObjectField;
  readonly options: ResolvedOptions;
  readonly layout: TableLayout;
}

/** Problems of a definition; none for schemas with tables of their own. */
export function mappingProblems({ tree, options, layout }: Checked): readonly Problem[] {
  const { mapping } = layout;
  if (!mapping) return [];
  const fields = [...tree.fields].flatMap(([name, field]): Problem[] => {
    const problem = (rule: string, message: string): Problem => ({
      path: `fields.${shortName(name)}`,
      rule,
      message,
    });
    if (!mapping.columns[name])
      return [problem('imported', 'the table that was imported has no such column')];
    const isUnique = Object.values(layout.indexes).some(
      ({ unique, columns }) => unique && columns.length === 1 && columns[0] === name,
    );
    if (field.unique && !isUnique)
      return [
        problem(
          'unique',
          'the table does not keep it unique; add the index in your database first',
        ),
      ];
    if (field.indexed)
      return [problem('index', 'indexes of an imported table are made in your database')];
    return [];
  });
  return [...fields, ...permissionProblems(options, layout)];
}

/** Permissions are written down about UUIDs. */
function permissionProblems(
  { authorization, cms }: ResolvedOptions,
  { mapping }: TableLayout,
): Problem[] {
  const key = mapping ? keyOf(mapping) : [];
  const hasUuid = key.length === 1 && key[0] === 'uuid';
  const problem = (path: string, message: string): Problem => ({
    path: `modelOptions.conduit.${path}`,
    rule: 'imported',
    message,
  });
  return [
    ...(authorization.enabled && !hasUuid
      ? [
          problem(
            'authorization.enabled',
            'needs records whose ids are UUIDs; the key of this table is another one',
          ),
        ]
      : []),
    ...(cms.crudOperations.update.upsert
      ? [problem('cms.crudOperations.update.upsert', 'is not possible for an imported table')]
      : []),
  ];
}

/** Throws 403 for what would change the table. */
export function requireOwnTable(
  { name, layout }: Pick<Declaration, 'name' | 'layout'>,
  what: string,
): void {
  if (layout.mapping) throw importedTable(name, what);
}

export const importedTable = (name: string, what: string): PenstockError =>
  schemaErrors.TABLE_IMPORTED({
    message: `${name} is laid over a table of your own, which stays as it is: ${what}`,
  });

/** Relations of schemas with tables of their own hold UUIDs. Throws 400 for a relation to records that have other ids. */
export function requireUuids(
  source: Declaration,
  tree: ObjectField,
  layoutOf: (schema: string) => TableLayout | undefined,
): void {
  if (source.layout.mapping) return;
  const problems = [...tree.fields].flatMap(([name, field]): Problem[] => {
    const relation = field.kind === 'array' ? field.items : field;
    const mapping = relation.kind === 'relation' ? layoutOf(relation.model)?.mapping : undefined;
    if (!mapping || relation.kind !== 'relation') return [];
    const key = keyOf(mapping);
    if (key.length === 1 && key[0] === 'uuid') return [];
    const message = `${source.name} cannot refer to ${relation.model}, whose ids are no UUIDs: keep the id in a String field`;
    return [{ path: `fields.${name}.model`, rule: 'relation', message }];
  });
  if (problems.length > 0) throw invalidSchema(problems);
}

interface CheckedOptions {
  readonly options: PlatformOptions;
  readonly tree: ObjectField;
  /** What the table has now. */
  readonly layout: TableLayout;
}

/** What does not fit together between these options, the fields and the table. */
export const recordOptionProblems = (checked: CheckedOptions): readonly Problem[] => [
  ...importedProblems(checked),
  ...trashProblems(checked),
  ...ownerProblems(checked),
  ...accessProblems(checked),
  ...queryProblems(checked),
];

const option = (name: string): string => `modelOptions.conduit.${name}`;

/** A table that belongs to somebody else gets no columns of ours. */
function importedProblems({ options }: CheckedOptions): Problem[] {
  if (!options.imported) return [];
  const message = 'is not possible for an imported table, which has no columns of the platform';
  const requested = [softDeleteOf(options) && 'softDelete', historyOf(options) && 'history'].filter(
    (name) => name !== undefined,
  );
  return requested.map((name) => ({ path: option(name), rule: 'imported', message }));
}

function trashProblems({ options, tree, layout }: CheckedOptions): Problem[] {
  const field = tree.fields.get(deletedColumn);
  if (!field) {
    const stored = softDeleteOf(options) && layout.columns[deletedColumn];
    if (!stored || stored.type === 'timestamptz(3)') return [];
    const message = `the table has a column ${deletedColumn} of a field that was taken out; bring it back under another name first`;
    return [{ path: option('softDelete'), rule: 'column', message }];
  }
  const path = `fields.${deletedColumn}`;
  if (softDeleteOf(options))
    return [{ path, rule: 'name', message: 'is made by the platform while softDelete is on' }];
  const stored = layout.columns[deletedColumn];
  if (!stored || stored.type === columnType(field)) return [];
  return [
    {
      path,
      rule: 'type',
      message: `was ${stored.type}, made by softDelete, and cannot become ${columnType(field)}`,
    },
  ];
}

/** True for a field that can hold the id of the user who created a record. */
const holdsUser = (field: Field | undefined): boolean =>
  field?.kind === 'objectId' || (field?.kind === 'relation' && field.model === 'User');

function ownerProblems({ options: { owner }, tree }: CheckedOptions): Problem[] {
  if (!owner || holdsUser(tree.fields.get(owner.field))) return [];
  const message = 'must be a top-level field that is a Relation to User or an ObjectId';
  return [{ path: `${option('owner')}.field`, rule: 'field', message }];
}

/** What clients may filter by begins with a field; one that was taken out may come back, and the way may lead to schemas that are not there yet. */
function queryProblems({ options, tree, layout }: CheckedOptions): Problem[] {
  return (options.cms?.query?.fields ?? []).flatMap((path, position) => {
    const [first = '', ...rest] = path.split('.');
    const known =
      tree.fields.has(first) || automaticFields.has(first) || Object.hasOwn(layout.columns, first);
    if (known && rest.every(isNameLike)) return [];
    return [
      {
        path: `${option('cms')}.query.fields.${position}`,
        rule: 'field',
        message: `there is no field "${shortName(path)}"`,
      },
    ];
  });
}

function accessProblems({ options, tree }: CheckedOptions): Problem[] {
  const rowAuthorised = options.authorization?.enabled === true;
  const problem = (rule: AccessRule): string | undefined => {
    if (rule.kind === 'owner' && !options.owner && !rowAuthorised)
      return 'owner needs an owner field, or row authorization';
    if (rule.kind === 'relation' && !rowAuthorised)
      return 'a relation to the record needs row authorization';
    return undefined;
  };
  return [...tree.fields].flatMap(([name, field]) =>
    Object.entries({ read: readRuleOf(field), write: writeRuleOf(field) }).flatMap(
      ([side, rule]) => {
        const message = problem(rule);
        return message === undefined
          ? []
          : [{ path: `fields.${name}.access.${side}`, rule: 'access', message }];
      },
    ),
  );
}
