/** Forms as state, by name. What was sent with them is none. */
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateType,
  touchesNothing,
} from '../../kernel/state.ts';
import { type FormDefinition, type GivenForm, NewFormShape } from './definition/definition.ts';
import { allForms, formIdOf } from './queries/forms.ts';
import type { Forms } from './services/forms.ts';

export const formState = (database: Database, forms: Forms): StateType => ({
  module: 'forms',
  type: 'forms',
  reportDamaged: true,
  priority: 40,
  document: NewFormShape,
  keyOf: ({ name }) => String(name),
  touches: touchesNothing,
  export: async () => (await allForms(database)).map(documentOf),
  async complete(_caller, documents) {
    const completed: StateDocument[] = [];
    for (const { document, place } of documents)
      completed.push(
        await placed(place, () => documentOf(forms.read(document as StateDocument & GivenForm))),
      );
    return completed;
  },
  apply: (caller, changes) =>
    database.transaction(async (transaction) => {
      for (const change of changes)
        await applyOne(forms, caller, change, await formIdOf(transaction, change.key));
    }),
});

/** What is not said is as if it was not there: a default of a new version changes no document. */
function documentOf(definition: FormDefinition): StateDocument {
  const isSaid = ([name, value]: [string, unknown]): boolean =>
    name === 'enabled' || !(value === null || value === false || isEmpty(value));
  return Object.fromEntries(Object.entries(definition ?? {}).filter(isSaid));
}

const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/** Whole: what a document does not say has its default. */
const omitted: Omit<GivenForm, 'name' | 'fields'> = {
  forwardTo: null,
  emailField: null,
  authRequired: false,
  autoReply: false,
  doubleOptIn: false,
  proofOfWork: false,
  redirectUrl: null,
  message: null,
  template: null,
  closesAt: null,
  maxSubmissions: null,
};

async function applyOne(
  forms: Forms,
  caller: Caller,
  { after }: StateChange,
  id: string | undefined,
): Promise<void> {
  const form = after as (StateDocument & GivenForm) | undefined;
  if (form && id !== undefined) await forms.update(caller, id, { ...omitted, ...form });
  else if (form) await forms.create(caller, form);
  else if (id !== undefined) await forms.remove(caller, id, false);
}
