/** What an import makes of the documents of each type. */
import type { Caller } from '../../../../kernel/caller.ts';
import { byText, sameValue } from '../../../../kernel/state/canonical.ts';
import type { PlacedDocument, StateChange, StateDocument, StateImport, StateType } from '../../../../kernel/state/state.ts';
import { differencesOf } from './differences.ts';
import type { KnownPart } from './known-types.ts';
import type { PlanEntry, PlanOptions, TypeStep } from './plan.ts';
import type { Refusals } from './refusals.ts';

export interface PlannedType {
  readonly step: TypeStep;
  readonly entries: readonly PlanEntry[];
  readonly warnings: readonly string[];
}

/** `refusals` takes what the types have to say against their documents, each beside all others of the import. */
export async function planTypes(
  caller: Caller,
  parts: readonly KnownPart[],
  { options, refusals }: { readonly options: PlanOptions; readonly refusals: Refusals },
): Promise<readonly PlannedType[]> {
  const planned = new Map<StateType, PlannedType>();
  const find = (module: string, type: string): KnownPart | undefined => parts.find((one) => one.module === module && one.type === type);
  const whole: StateImport = {
    documents: (module, type) => find(module, type)?.documents ?? [],
    changes(module, type) {
      const part = find(module, type);
      return (part && planned.get(part.state)?.step.changes) ?? [];
    },
  };
  for (const part of parts) planned.set(part.state, await planType(caller, part, { whole, options, refusals }));
  for (const { state, module, type } of parts) {
    const changes = whole.changes(module, type);
    if (changes.length > 0) await refusals.of(async () => state.check?.(caller, changes, whole));
  }
  return Promise.all([...planned.values()].map((one) => withOutlook(caller, one, { whole, refusals })));
}

/** What the changes of a type do to stored data, beside their entries. */
async function withOutlook(caller: Caller, planned: PlannedType, { whole, refusals }: Omit<Planning, 'options'>): Promise<PlannedType> {
  const { state, changes } = planned.step;
  const outlook = changes.length === 0 ? undefined : await refusals.of(async () => state.outlook?.(caller, changes, whole));
  if (!outlook) return planned;
  refusals.addConflicts(outlook.obstacles);
  const entries = planned.entries.map((entry) => {
    const { renames = [], hides = [] } = outlook.effects.get(entry.key) ?? {};
    return { ...entry, ...(renames.length > 0 && { renames }), ...(hides.length > 0 && { hides }) };
  });
  return { ...planned, entries, warnings: outlook.warnings };
}

interface Planning {
  readonly whole: StateImport;
  readonly options: PlanOptions;
  readonly refusals: Refusals;
}

/** What becomes of one thing. `change` is absent where nothing is to be done. */
interface Planned {
  readonly entry: PlanEntry;
  readonly change?: StateChange;
}

async function planType(caller: Caller, part: KnownPart, { whole, options, refusals }: Planning): Promise<PlannedType> {
  const { state, documents } = part;
  const current = new Map((await state.export()).map((document) => [state.keyOf(document), document]));
  // What cannot be completed is shown as it was written, beside the reason.
  const written = documents.map(({ document }) => document);
  const completed = documents.length === 0 ? [] : ((await refusals.of(() => state.complete(caller, documents, whole))) ?? written);
  const wanted = completed.map((after, i) => ({ after, key: state.keyOf(after), ...(documents[i] as PlacedDocument) }));
  const kept = new Set(wanted.map(({ key }) => key));
  const planned: readonly Planned[] = [
    ...wanted.map((one) => planDocument(part, current.get(one.key), one, options)),
    ...(options.prune ? [...current] : [])
      .filter(([key, before]) => !kept.has(key) && state.isRemovable?.(before) !== false)
      .map(([key, before]) => planRemoval(part, key, before)),
  ];
  const entries = planned.map(({ entry }) => entry).sort((a, b) => byText(a.key, b.key));
  const skipped = entries.filter((entry) => entry.skipped).length;
  const unchanged = entries.filter(({ action }) => action === 'noop').length - skipped;
  return { entries, warnings: [], step: { state, changes: planned.flatMap(({ change }) => change ?? []), unchanged, skipped } };
}

interface Wanted extends PlacedDocument {
  readonly key: string;
  readonly after: StateDocument;
}

function planDocument(
  { module, type }: KnownPart,
  before: StateDocument | undefined,
  { key, after, document: given, place }: Wanted,
  { onConflict }: PlanOptions,
): Planned {
  if (before && sameValue(before, after)) return { entry: { action: 'noop', module, type, key, diff: [] } };
  const diff = differencesOf(before, after);
  if (before && onConflict === 'skip') return { entry: { action: 'noop', module, type, key, diff, skipped: true } };
  const action = before ? 'update' : 'create';
  return { entry: { action, module, type, key, diff }, change: { action, key, ...(before && { before }), after, given, place } };
}

function planRemoval({ module, type }: KnownPart, key: string, before: StateDocument): Planned {
  return {
    entry: { action: 'delete', module, type, key, diff: differencesOf(before, undefined) },
    change: { action: 'delete', key, before, place: `modules.${module}.${type}` },
  };
}
