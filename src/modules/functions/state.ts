/** Functions as state, by name. Secrets are none of it. */
import { type ActionUse, unknownActions } from '../../kernel/action-uses.ts';
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import { invalidInput } from '../../kernel/operations/problems.ts';
import type { PermissionPort } from '../../kernel/permissions.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateType,
} from '../../kernel/state.ts';
import { DEFAULT_TIMEOUT, type StoredFunction } from './definition/definition.ts';
import { NewFunctionShape } from './operations/shapes.ts';
import { codesOf } from './queries/functions.ts';
import type { Functions, GivenFunction } from './services/functions.ts';

export const functionState = (
  { database, permissions }: { readonly database: Database; readonly permissions: PermissionPort },
  functions: Functions,
): StateType => ({
  module: 'functions',
  type: 'functions',
  priority: 40,
  document: NewFunctionShape,
  keyOf: ({ name }) => String(name),
  touches: (document) => functions.touchedBy(givenOf(document)),
  async export() {
    const all = functions.store.all().filter(({ damage }) => !damage);
    const codes = await codesOf(
      database,
      all.map(({ _id }) => _id),
    );
    return all.map(({ _id, name, functionType, inputs, returns, timeout }) =>
      documentOf({
        name,
        functionType,
        inputs,
        returns,
        timeout,
        functionCode: codes.get(_id) ?? '',
      }),
    );
  },
  async complete(_caller, documents) {
    const completed: StateDocument[] = [];
    for (const { document, place } of documents)
      completed.push(
        await placed(place, async () => {
          const given = givenOf(document);
          await functions.examine(given);
          return documentOf(given);
        }),
      );
    return completed;
  },
  async check(_caller, changes, whole) {
    const asked = changes.flatMap(({ after, place }) => {
      const requires = after && givenOf(after).inputs.requires;
      return requires ? [{ ...requires, place: `${place}.inputs.requires.action` }] : [];
    });
    const knows = async (schema: string, action: string): Promise<boolean> =>
      (await permissions.engine?.knows(schema, action)) ?? true;
    const problems = await unknownActions(whole, asked, knows);
    if (problems.length > 0) throw invalidInput([...problems]);
  },
  async apply(caller, changes) {
    for (const change of changes) await applyOne(functions, caller, change);
  },
});

/** The actions that stored functions ask for. */
export const actionUses = (all: readonly StoredFunction[]): readonly ActionUse[] =>
  all.flatMap(({ name, inputs: { requires } }) => {
    if (!requires) return [];
    const { schema, action } = requires;
    const title = `the function "${name}"`;
    return [{ schema, action, module: 'functions', type: 'functions', key: name, title }];
  });

/** What is not said is as if it was not there. */
function documentOf({ functionType, name, inputs, returns, timeout, functionCode }: GivenFunction) {
  return {
    name,
    functionType,
    functionCode,
    ...(Object.keys(inputs).length > 0 && { inputs }),
    ...(returns !== null && { returns }),
    ...(timeout !== DEFAULT_TIMEOUT && { timeout }),
  };
}

const givenOf = (document: StateDocument): GivenFunction => ({
  inputs: {},
  returns: null,
  timeout: DEFAULT_TIMEOUT,
  ...(document as unknown as Pick<GivenFunction, 'name' | 'functionType' | 'functionCode'>),
});

async function applyOne(
  functions: Functions,
  caller: Caller,
  { key, after }: StateChange,
): Promise<void> {
  const there = functions.store.byName(key);
  if (!after) {
    if (there) await functions.remove(caller, [there._id]);
    return;
  }
  const given = givenOf(after);
  // Of another kind it is another function.
  if (there && there.functionType !== given.functionType)
    await functions.remove(caller, [there._id]);
  else if (there) {
    const { functionType: _kind, ...change } = given;
    await functions.update(caller, there._id, change);
    return;
  }
  await functions.create(caller, given);
}
