/** Resource definitions as state: all but those that the platform brings and nobody has changed. */
import { valueAt } from '../../../kernel/config/tree.ts';
import { placed } from '../../../kernel/state/placed.ts';
import type { StateDocument, StateType } from '../../../kernel/state/state.ts';
import { NewDefinitionShape } from '../operations/resources.ts';
import { builtInNames, isUntouched } from '../services/built-in.ts';
import type { Definitions } from '../services/definitions.ts';
import { type DefinitionContent, parsedDefinition, type StoredDefinition } from '../services/models.ts';

/** Versions count the changes of one installation: they are taken, and mean nothing. */
export const definitionState = (definitions: Definitions): StateType => ({
  module: 'authorization',
  type: 'resourceDefinitions',
  priority: 5,
  document: NewDefinitionShape,
  keyOf: ({ name }) => String(name),
  export: async () => (await definitions.all()).filter((stored) => !isUntouched(stored)).map(documentOf),
  async complete(_caller, documents) {
    const contents = documents.map(({ document }) => contentOf(document));
    for (const [i, content] of contents.entries()) await placed(documents[i]?.place ?? '', () => void parsedDefinition(content));
    return contents.map(documentOf);
  },
  isRemovable: ({ name }) => !builtInNames.has(String(name)),
  async check(_caller, changes, whole) {
    const gone = whole.changes('database', 'schemas').filter(({ action }) => action === 'delete');
    const places = new Map(changes.map(({ key, place }) => [key, place]));
    await definitions.checkAll(
      {
        defined: changes.flatMap(({ after }) => (after ? [contentOf(after)] : [])),
        removed: changes.filter(({ action }) => action === 'delete').map(({ key }) => key),
        withoutSchema: new Set(gone.map(({ key }) => key)),
        withRecords: new Set(
          whole.documents('database', 'schemas').flatMap(({ document }) => (isRowAuthorised(document) ? [String(document.name)] : [])),
        ),
      },
      (name) => places.get(name) ?? name,
    );
  },
  async apply(caller, changes) {
    await definitions.defineAll(
      caller,
      changes.flatMap(({ after }) => (after ? [contentOf(after)] : [])),
    );
    // What would break was found by the check, which knows what else goes and comes.
    for (const { action, key } of changes) if (action === 'delete') await definitions.remove(caller, key, { force: true });
  },
});

function contentOf({ name, relations, permissions, conditions = {}, actAs = null }: StateDocument): DefinitionContent {
  return { name, relations, permissions, conditions, actAs } as DefinitionContent;
}

const documentOf = ({ name, relations, permissions, conditions, actAs }: StoredDefinition | DefinitionContent): StateDocument => ({
  name,
  relations,
  permissions,
  ...(Object.keys(conditions).length > 0 && { conditions }),
  ...(actAs !== null && { actAs }),
});

/** A schema of the same import whose records will be served by the definition of its name. */
const isRowAuthorised = ({ modelOptions }: StateDocument): boolean =>
  valueAt(modelOptions, ['conduit', 'authorization', 'enabled']) === true;
