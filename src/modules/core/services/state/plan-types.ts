/** What an import makes of the documents of each type. */
import type { Caller } from '../../../../kernel/caller.ts';
import { changedLeaves, valueAt } from '../../../../kernel/config/tree.ts';
import { byText, canonical, sameValue } from '../../../../kernel/state/canonical.ts';
import type { PlacedDocument, StateChange, StateDocument, StateImport, StateType } from '../../../../kernel/state/state.ts';
import type { KnownPart } from './known-types.ts';
import type { PlanEntry, PlanOptions, TypeStep } from './plan.ts';

export interface PlannedType {
  readonly step: TypeStep;
  readonly entries: readonly PlanEntry[];
}

/** Throws what the types have to say against their documents, each beside all others of the import. */
export async function planTypes(caller: Caller, parts: readonly KnownPart[], options: PlanOptions): Promise<readonly PlannedType[]> {
  const planned = new Map<StateType, PlannedType>();
  const find = (module: string, type: string): KnownPart | undefined => parts.find((one) => one.module === module && one.type === type);
  const whole: StateImport = {
    documents: (module, type) => find(module, type)?.documents ?? [],
    changes(module, type) {
      const part = find(module, type);
      return (part && planned.get(part.state)?.step.changes) ?? [];
    },
  };
  for (const part of parts) planned.set(part.state, await planType(caller, part, { whole, options }));
  for (const { state, module, type } of parts) {
    const changes = whole.changes(module, type);
    if (changes.length > 0) await state.check?.(caller, changes, whole);
  }
  return [...planned.values()];
}

interface Planning {
  readonly whole: StateImport;
  readonly options: PlanOptions;
}

/** What becomes of one thing. `change` is absent where nothing is to be done. */
interface Planned {
  readonly entry: PlanEntry;
  readonly change?: StateChange;
}

async function planType(caller: Caller, part: KnownPart, { whole, options }: Planning): Promise<PlannedType> {
  const { state, documents } = part;
  const current = new Map((await state.export()).map((document) => [state.keyOf(document), document]));
  const completed = documents.length === 0 ? [] : await state.complete(caller, documents, whole);
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
  return { entries, step: { state, changes: planned.flatMap(({ change }) => change ?? []), unchanged, skipped } };
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

function differencesOf(before: StateDocument | undefined, after: StateDocument | undefined): PlanEntry['diff'] {
  const [from, to] = [canonical(before ?? {}), canonical(after ?? {})];
  return changedLeaves(from, to).map((path) => ({
    path: path.join('.'),
    from: valueAt(from, path) ?? null,
    to: valueAt(to, path) ?? null,
  }));
}
