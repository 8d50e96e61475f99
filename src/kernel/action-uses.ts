/**
 * Actions of resource definitions that something asks its callers for, such as a custom endpoint or a function. Who keeps
 * such things says so here: definitions that would take such an action away are then refused, with the name of what
 * needs it.
 */
import type { Problem } from './errors.ts';
import type { StateDocument, StateImport } from './state.ts';
import { cutText } from './text.ts';

export interface NamedAction {
  /** Name of the resource definition. */
  readonly schema: string;
  readonly action: string;
}

/** Something stored that asks for an action. */
export interface ActionUse extends NamedAction {
  /** Where its state is, and its key there. */
  readonly module: string;
  readonly type: string;
  readonly key: string;
  /** As people call it: `custom endpoint "approve"`. */
  readonly title: string;
}

/** All that one owner keeps, at the time of the call. */
export type ActionUses = () => readonly ActionUse[];

/** An action that a document of an import asks for, with its place. */
export interface ImportedAction extends NamedAction {
  readonly place: string;
}

/** Those that their definitions do not have now, and will not have with the same import. */
export async function unknownActions(
  whole: StateImport,
  asked: readonly ImportedAction[],
  knows: (schema: string, action: string) => Promise<boolean>,
): Promise<readonly Problem[]> {
  const definitions = new Map(
    whole.changes('authorization', 'resourceDefinitions').map((one) => [one.key, one]),
  );
  const problems: Problem[] = [];
  for (const { schema, action, place } of asked) {
    const change = definitions.get(schema);
    if (change ? hasWord(change.after, action) : await knows(schema, action)) continue;
    problems.push({ path: place, rule: 'action', message: unknownAction({ schema, action }) });
  }
  return problems;
}

export const unknownAction = ({ schema, action }: NamedAction): string =>
  `"${cutText(action, 64)}" is not an action of the resource definition ${schema}`;

const hasWord = (definition: StateDocument | undefined, word: string): boolean =>
  [definition?.permissions, definition?.relations].some(
    (words) => typeof words === 'object' && words !== null && Object.hasOwn(words, word),
  );
