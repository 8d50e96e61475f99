/** What may be said about a schema over a table of others: the table stays as it is, so nothing that would change it. */
import type { PenstockError, Problem } from '../../errors.ts';
import type { Declaration } from '../declaration.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import type { ObjectField } from '../field.ts';
import type { TableLayout } from '../layout.ts';
import { shown } from '../names.ts';
import type { ResolvedOptions } from '../options.ts';
import { keyOf } from './mapping.ts';

interface Checked {
  readonly tree: ObjectField;
  readonly options: ResolvedOptions;
  readonly layout: TableLayout;
}

/** Faults of a definition; none for schemas with tables of their own. */
export function mappingProblems({ tree, options, layout }: Checked): readonly Problem[] {
  const { mapping } = layout;
  if (!mapping) return [];
  const fields = [...tree.fields].flatMap(([name, field]): Problem[] => {
    const fault = (rule: string, message: string): Problem => ({ path: `fields.${shown(name)}`, rule, message });
    if (!mapping.columns[name]) return [fault('imported', 'the table that was imported has no such column')];
    const isUnique = Object.values(layout.indexes).some(({ unique, columns }) => unique && columns.length === 1 && columns[0] === name);
    if (field.unique && !isUnique) return [fault('unique', 'the table does not keep it unique; add the index in your database first')];
    if (field.indexed) return [fault('index', 'indexes of an imported table are made in your database')];
    return [];
  });
  return [...fields, ...permissionProblems(options, layout)];
}

/** Permissions are written down about UUIDs. */
function permissionProblems({ authorization, cms }: ResolvedOptions, { mapping }: TableLayout): Problem[] {
  const key = mapping ? keyOf(mapping) : [];
  const hasUuid = key.length === 1 && key[0] === 'uuid';
  const fault = (path: string, message: string): Problem => ({ path: `modelOptions.conduit.${path}`, rule: 'imported', message });
  return [
    ...(authorization.enabled && !hasUuid
      ? [fault('authorization.enabled', 'needs records whose ids are UUIDs; the key of this table is another one')]
      : []),
    ...(cms.crudOperations.update.upsert ? [fault('cms.crudOperations.update.upsert', 'is not possible for an imported table')] : []),
  ];
}

/** Throws 403 for what would change the table. */
export function requireOwnTable({ name, layout }: Pick<Declaration, 'name' | 'layout'>, what: string): void {
  if (layout.mapping) throw importedTable(name, what);
}

export const importedTable = (name: string, what: string): PenstockError =>
  schemaErrors.IMPORTED_TABLE({ message: `${name} is laid over a table of your own, which stays as it is: ${what}` });

/** Relations of schemas with tables of their own hold UUIDs. Throws 400 for a relation to records that have other ids. */
export function requireUuids(source: Declaration, tree: ObjectField, layoutOf: (schema: string) => TableLayout | undefined): void {
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
