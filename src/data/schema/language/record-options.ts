/** Options of a schema about the life of its records: the trash, history, owners. Their shapes, and what must fit together. */
import Type from 'typebox';
import type { OwnerOption, PlatformOptions } from './definition.ts';
import { type Field, type ObjectField, readRuleOf } from './field.ts';

const retainDays = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: 36_500,
    description: 'Days until it is purged; never unless set',
  }),
);

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
            max: Type.Optional(
              Type.Integer({
                minimum: 1,
                maximum: 10_000,
                description: 'Versions kept of each record; 100 unless set',
              }),
            ),
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
            field: Type.String({
              maxLength: 63,
              description: 'Relation to User, or ObjectId: the user who created the record',
            }),
            limit: Type.Optional(
              Type.Array(Type.Enum(['read', 'update', 'delete']), {
                maxItems: 3,
                description: 'What only that user may do',
              }),
            ),
            combine: Type.Optional(
              Type.Enum(['and', 'or'], {
                description:
                  'With row authorization: both must allow what is limited (and), or one is enough (or)',
              }),
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
  return history === true
    ? { max: DEFAULT_MAX_VERSIONS }
    : { max: DEFAULT_MAX_VERSIONS, ...history };
}

/** The fields as they are served: the owner is the platform's to set. */
export function ownedTree(tree: ObjectField, owner: OwnerOption | null | undefined): ObjectField {
  const field = owner ? tree.fields.get(owner.field) : undefined;
  if (!owner || !field) return tree;
  const own: Field = { ...field, access: { read: readRuleOf(field), write: { kind: 'admin' } } };
  return { ...tree, fields: new Map([...tree.fields, [owner.field, own]]) };
}
