/** Mail templates as state: those of operators, and those of modules that operators changed. */
import Type from 'typebox';
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateType,
} from '../../kernel/state.ts';
import { NewTemplateShape } from './operations/templates.ts';
import {
  checkTemplate,
  furtherVariables,
  type TemplateInput,
  type Templates,
} from './services/templates.ts';
import { operatorTemplates, templateIdOf } from './template-queries.ts';

/** `null` where a reader of the database would see that there is none. */
const TemplateDocument = Type.Object({
  ...NewTemplateShape.properties,
  sender: Type.Optional(Type.Union([Type.String({ maxLength: 254 }), Type.Null()])),
  translations: Type.Optional(Type.Union([NewTemplateShape.properties.translations, Type.Null()])),
});

export const templateState = (database: Database, templates: Templates): StateType => ({
  module: 'communications',
  type: 'emailTemplates',
  reportDamaged: true,
  priority: 30,
  document: TemplateDocument,
  keyOf: ({ name }) => String(name),
  touches: ({ name }) => templates.ownersOf(String(name)),
  export: async () =>
    (await operatorTemplates(database)).map((stored) => documentOf({ ...stored })),
  async complete(_caller, documents) {
    for (const { document, place } of documents)
      await placed(place, () => checkTemplate(textsOf(document)));
    return documents.map(({ document }) => documentOf(document));
  },
  apply: (caller, changes) =>
    database.transaction(async (transaction) => {
      for (const change of changes)
        await applyOne(templates, caller, change, await templateIdOf(transaction, change.key));
    }),
});

async function applyOne(
  templates: Templates,
  caller: Caller,
  { after }: StateChange,
  id: string | undefined,
): Promise<void> {
  if (after && id !== undefined)
    await templates.update(caller, id, {
      variables: [],
      ...inputOf(after),
      sender: String(after.sender ?? ''),
      translations: inputOf(after).translations ?? {},
    });
  else if (after) await templates.create(caller, inputOf(after));
  // A template of a module gets its first text back.
  else if (id !== undefined) await templates.remove(caller, [id]);
}

function textsOf(document: StateDocument): TemplateInput {
  const { name, subject, body, sender, translations } = document as StateDocument & TemplateInput;
  return {
    name,
    subject,
    body,
    ...(sender ? { sender } : {}),
    ...(translations ? { translations } : {}),
  };
}

/** In one form, so that equal templates are equal documents: without the variables that follow from the texts, which must be templates. */
function inputOf(document: StateDocument): TemplateInput {
  const texts = textsOf(document);
  const variables = furtherVariables({
    ...texts,
    variables: (document as StateDocument & TemplateInput).variables ?? [],
  });
  return variables.length === 0 ? texts : { ...texts, variables };
}

/** Texts that are no templates, which only a hand in the database writes, make no document. */
function documentOf(document: StateDocument): StateDocument {
  try {
    return { ...inputOf(document) };
  } catch {
    return { name: document.name };
  }
}
