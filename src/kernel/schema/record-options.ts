/** Options of a schema about the life of its records: the trash, history, owners. Their shapes, and what must fit together. */
import Type from 'typebox';
import type { Problem } from '../errors.ts';
import { type AccessRule, readRuleOf, writeRuleOf } from './access-rule.ts';
import type { OwnerOption, PlatformOptions } from './definition.ts';
import { columnType, type Field, type ObjectField } from './field.ts';
import { deletedColumn, type TableLayout } from './layout.ts';
import { automaticFields, isNameLike, shown } from './names.ts';

const retainDays = Type.Optional(Type.Integer({ minimum: 1, maximum: 36_500, description: 'Days until it is purged; never unless set' }));

/** Properties of `conduitOptions`. */
export const recordOptionShapes = {
  softDelete: Type.Optional(
    Type.Union([Type.Boolean(), Type.Object({ retainDays }, { additionalProperties: false })], {
      description: 'Deleted records are kept in a trash and can be restored',
    }),
  ),
  history: Type.Optional(
    Type.Union(
      [
        Type.Boolean(),
        Type.Object(
          {
            max: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, description: 'Versions kept of each record; 100 unless set' })),
            retainDays,
          },
          { additionalProperties: false },
        ),
      ],
      { description: 'What each record was before a change is kept' },
    ),
  ),
  owner: Type.Optional(
    Type.Union(
      [
        Type.Object(
          {
            field: Type.String({ maxLength: 63, description: 'Relation to User, or ObjectId: the user who created the record' }),
            limit: Type.Optional(
              Type.Array(Type.Enum(['read', 'update', 'delete']), { maxItems: 3, description: 'What only that user may do' }),
            ),
          },
          { additionalProperties: false },
        ),
        Type.Null(),
      ],
      { description: 'Records belong to the user who created them' },
    ),
  ),
};

/** The trash of a schema, if it has one. */
export interface SoftDelete {
  /** Days after which records in the trash are purged; without it only an admin purges. */
  readonly retainDays?: number;
}

/** The history of a schema, if it keeps one. */
export interface History {
  /** Versions kept of each record. */
  readonly max: number;
  readonly retainDays?: number;
}

const DEFAULT_MAX_VERSIONS = 100;

export function softDeleteOf({ softDelete }: PlatformOptions): SoftDelete | undefined {
  if (softDelete === undefined || softDelete === false) return undefined;
  return softDelete === true ? {} : softDelete;
}

export function historyOf({ history }: PlatformOptions): History | undefined {
  if (history === undefined || history === false) return undefined;
  return history === true ? { max: DEFAULT_MAX_VERSIONS } : { max: DEFAULT_MAX_VERSIONS, ...history };
}

/** The fields as they are served: the owner is the platform's to set. */
export function ownedTree(tree: ObjectField, owner: OwnerOption | null | undefined): ObjectField {
  const field = owner ? tree.fields.get(owner.field) : undefined;
  if (!owner || !field) return tree;
  const own: Field = { ...field, access: { read: readRuleOf(field), write: { kind: 'admin' } } };
  return { ...tree, fields: new Map([...tree.fields, [owner.field, own]]) };
}

interface Checked {
  readonly options: PlatformOptions;
  readonly tree: ObjectField;
  /** What the table has now. */
  readonly layout: TableLayout;
}

/** What does not fit together between these options, the fields and the table. */
export const recordOptionProblems = (checked: Checked): readonly Problem[] => [
  ...importedProblems(checked),
  ...trashProblems(checked),
  ...ownerProblems(checked),
  ...accessProblems(checked),
  ...queryProblems(checked),
];

const option = (name: string): string => `modelOptions.conduit.${name}`;

/** A table that belongs to somebody else gets no columns of ours. */
function importedProblems({ options }: Checked): Problem[] {
  if (!options.imported) return [];
  const message = 'is not possible for an imported table, which has no columns of the platform';
  const wanted = [softDeleteOf(options) && 'softDelete', historyOf(options) && 'history'].filter((name) => name !== undefined);
  return wanted.map((name) => ({ path: option(name), rule: 'imported', message }));
}

function trashProblems({ options, tree, layout }: Checked): Problem[] {
  const field = tree.fields.get(deletedColumn);
  if (!field) {
    const stored = softDeleteOf(options) && layout.columns[deletedColumn];
    if (!stored || stored.type === 'timestamptz(3)') return [];
    const message = `the table has a column ${deletedColumn} of a field that was taken out; bring it back under another name first`;
    return [{ path: option('softDelete'), rule: 'column', message }];
  }
  const path = `fields.${deletedColumn}`;
  if (softDeleteOf(options)) return [{ path, rule: 'name', message: 'is made by the platform while softDelete is on' }];
  const stored = layout.columns[deletedColumn];
  if (!stored || stored.type === columnType(field)) return [];
  return [{ path, rule: 'type', message: `was ${stored.type}, made by softDelete, and cannot become ${columnType(field)}` }];
}

/** True for a field that can hold the id of the user who created a record. */
const holdsUser = (field: Field | undefined): boolean =>
  field?.kind === 'objectId' || (field?.kind === 'relation' && field.model === 'User');

function ownerProblems({ options: { owner }, tree }: Checked): Problem[] {
  if (!owner || holdsUser(tree.fields.get(owner.field))) return [];
  const message = 'must be a top-level field that is a Relation to User or an ObjectId';
  return [{ path: `${option('owner')}.field`, rule: 'field', message }];
}

/** What clients may filter by begins with a field; one that was taken out may come back, and the way may lead to schemas that are not there yet. */
function queryProblems({ options, tree, layout }: Checked): Problem[] {
  return (options.cms?.query?.fields ?? []).flatMap((path, position) => {
    const [first = '', ...rest] = path.split('.');
    const known = tree.fields.has(first) || automaticFields.has(first) || Object.hasOwn(layout.columns, first);
    if (known && rest.every(isNameLike)) return [];
    return [{ path: `${option('cms')}.query.fields.${position}`, rule: 'field', message: `there is no field "${shown(path)}"` }];
  });
}

function accessProblems({ options, tree }: Checked): Problem[] {
  const rowAuthorised = options.authorization?.enabled === true;
  const fault = (rule: AccessRule): string | undefined => {
    if (rule.kind === 'owner' && !options.owner && !rowAuthorised) return 'owner needs an owner field, or row authorization';
    if (rule.kind === 'relation' && !rowAuthorised) return 'a relation to the record needs row authorization';
    return undefined;
  };
  return [...tree.fields].flatMap(([name, field]) =>
    Object.entries({ read: readRuleOf(field), write: writeRuleOf(field) }).flatMap(([side, rule]) => {
      const message = fault(rule);
      return message === undefined ? [] : [{ path: `fields.${name}.access.${side}`, rule: 'access', message }];
    }),
  );
}
