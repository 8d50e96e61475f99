/** Resource definitions as they are stored and written, and what they mean. */
import { isDeepStrictEqual } from 'node:util';
import { type Definition, parseDefinition, type RecordField } from '../../model/definition.ts';

/** A definition as it is stored: the wire form. */
export interface StoredDefinition {
  readonly id: string;
  readonly name: string;
  readonly relations: Readonly<Record<string, unknown>>;
  /** What the fields are that relations are taken from, as far as they are there (record-fields.ts). */
  readonly fields?: Readonly<Record<string, RecordField>>;
  /** The records of the type have columns for their owner (services/owner-columns.ts). */
  readonly ownerColumns?: boolean;
  /** Fields of which changes are noted (services/field-tracking.ts). */
  readonly followed?: readonly string[];
  /** Actions that were granted directly (services/granted-actions.ts). */
  readonly granted?: readonly string[];
  readonly permissions: Readonly<Record<string, unknown>>;
  readonly conditions: Readonly<Record<string, unknown>>;
  readonly actAs: string | null;
  readonly version: number;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** The content of a definition, without what the platform adds to it. */
export type DefinitionContent = Pick<
  StoredDefinition,
  | 'name'
  | 'relations'
  | 'fields'
  | 'ownerColumns'
  | 'followed'
  | 'granted'
  | 'permissions'
  | 'conditions'
  | 'actAs'
>;

export const parsedDefinition = ({
  name,
  relations,
  fields = {},
  ownerColumns = false,
  followed = [],
  granted = [],
  permissions,
  conditions,
  actAs,
}: DefinitionContent): Definition =>
  parseDefinition({
    name,
    relations,
    fields,
    ownerColumns,
    followed,
    granted,
    permissions,
    conditions,
    ...(actAs === null ? {} : { actAs }),
  });

const contentOf = ({ relations, permissions, conditions, actAs }: DefinitionContent) => ({
  relations,
  permissions,
  conditions,
  actAs,
});

/**
 * Those of the stored definitions that are valid. Only a hand in the database, or a version that took more, can have stored
 * others: nothing is allowed by what nobody understands, and nothing else is hindered by it.
 */
export const validDefinitions = (
  stored: Iterable<DefinitionContent>,
  refused: (name: string, error: unknown) => void = () => undefined,
): readonly Definition[] =>
  [...stored].flatMap((definition) => {
    try {
      return [parsedDefinition(definition)];
    } catch (error) {
      refused(definition.name, error);
      return [];
    }
  });

/** Whether two definitions say the same. */
export const sameContent = (one: DefinitionContent, other: DefinitionContent): boolean =>
  isDeepStrictEqual(contentOf(one), contentOf(other));

export interface NewDefinition extends DefinitionContent {
  readonly version?: number | undefined;
}
