/** Partials and templates for several channels as state. */
import Type from 'typebox';
import type { Database } from '../../kernel/database/database.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateType,
  touchesNothing,
} from '../../kernel/state.ts';
import { UnifiedShape } from './operations/unified-templates.ts';
import { type PartialTemplates, parsePart } from './services/template-language.ts';
import type { Templates } from './services/templates.ts';
import {
  checked,
  inputOf,
  type UnifiedInput,
  type UnifiedTemplates,
} from './services/unified-templates.ts';
import { allUnified, unifiedByName } from './template-queries.ts';

export const partialState = (
  partials: PartialTemplates,
  templates: Pick<Templates, 'ownersOfPart'>,
): StateType => ({
  module: 'communications',
  type: 'messagePartials',
  priority: 29,
  document: Type.Object({
    name: Type.String({ pattern: '^[A-Za-z][A-Za-z0-9_-]{0,99}$' }),
    body: Type.String({ minLength: 1, maxLength: 100_000 }),
  }),
  keyOf: ({ name }) => String(name),
  touches: ({ name }) => templates.ownersOfPart(String(name)),
  export: async () => (await partials.list()).map(({ name, body }) => ({ name, body })),
  async complete(_caller, documents) {
    for (const { document, place } of documents)
      await placed(place, () => parsePart('body', String(document.body)));
    return documents.map(({ document }) => ({ name: document.name, body: document.body }));
  },
  async apply(caller, changes) {
    for (const { key, after } of changes)
      if (after) await partials.save(caller, key, String(after.body));
      else await partials.remove(caller, key);
  },
});

export const unifiedState = (database: Database, unified: UnifiedTemplates): StateType => ({
  module: 'communications',
  type: 'communicationTemplates',
  priority: 31,
  document: UnifiedShape,
  keyOf: ({ name }) => String(name),
  touches: touchesNothing,
  export: async () => (await allUnified(database)).map((row) => documentOf(inputOf(row))),
  async complete(_caller, documents) {
    const complete: StateDocument[] = [];
    for (const { document, place } of documents)
      complete.push(await placed(place, () => documentOf(checked(written(document)))));
    return complete;
  },
  apply: (_caller, changes) =>
    database.transaction(async (transaction) => {
      for (const change of changes)
        await applyOne(unified, change, (await unifiedByName(transaction, change.key))?.id);
    }),
});

async function applyOne(
  unified: UnifiedTemplates,
  { after }: StateChange,
  id: string | undefined,
): Promise<void> {
  if (after && id !== undefined) await unified.replace(id, written(after));
  else if (after) await unified.create(written(after));
  else if (id !== undefined) await unified.remove(id);
}

const written = (document: StateDocument): UnifiedInput => document as unknown as UnifiedInput;

/** In one form, so that equal templates are equal documents. */
function documentOf(input: UnifiedInput): StateDocument {
  const { translations, ...rest } = input;
  return {
    ...rest,
    ...(translations && Object.keys(translations).length > 0 ? { translations } : {}),
  };
}
