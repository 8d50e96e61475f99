/**
 * What an import would do. Everything that can be known to be wrong is found here, before the first write: the
 * shape of every document, each configuration as it would be, and what every type has to say about its documents
 * beside all others of the import. What is no document of this platform is refused; what stands in the way of one is
 * part of the plan.
 */
import { modulesOfCaller, requireAuthority } from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { byText, checksumInSlices, sameValue } from '../../../../kernel/canonical.ts';
import type { ConfigDifference } from '../../../../kernel/config/config-service.ts';
import { errors } from '../../../../kernel/errors.ts';
import {
  type PlacedDocument,
  placed,
  type StateChange,
  type StateDocument,
  type StateEffects,
  type StateImport,
  type StateRegistry,
  type StateType,
} from '../../../../kernel/state.ts';
import { createTimeSlices } from '../../../../kernel/time-slices.ts';
import { type KnownPart, requireTypes, type StateContent, storedDocuments } from './document.ts';
import {
  type ConfigPlanParts,
  type ConfigStep,
  type PlannedConfig,
  planConfigs,
} from './plan-configs.ts';
import { collectRefusals, differencesOf, type Refusals } from './refusals.ts';

/** What to do with a document whose key is there already with another content. */
type OnConflict = 'overwrite' | 'skip' | 'fail';

export interface PlanOptions {
  readonly onConflict: OnConflict;
  /** Take away what the document does not have, of the types that it has. */
  readonly prune: boolean;
  /** Refuse keys that a configuration does not know. */
  readonly strict: boolean;
}

interface PlanEntry {
  readonly action: 'create' | 'update' | 'delete' | 'noop';
  readonly module: string;
  /** `config` for the configuration of the module. */
  readonly type: string;
  readonly key: string;
  /** Leaves that change, by dotted path; secrets are masked. */
  readonly diff: readonly ConfigDifference[];
  /** It differs, and `onConflict=skip` leaves it. */
  readonly skipped?: boolean;
  readonly renames?: StateEffects['renames'];
  /** Counts as taken away. */
  readonly hides?: StateEffects['hides'];
}

export interface TypeStep {
  readonly state: StateType;
  readonly changes: readonly StateChange[];
  readonly unchanged: number;
  readonly skipped: number;
}

export interface StatePlan {
  readonly entries: readonly PlanEntry[];
  /** Equal plans have equal ones: what was confirmed is what is done. */
  readonly checksum: string;
  readonly warnings: readonly string[];
  /** Why an import of it would be refused. */
  readonly refusals: Refusals;
  /** Configurations that change. */
  readonly configs: readonly ConfigStep[];
  /** Every type of the document, in the order in which they are written. */
  readonly steps: readonly TypeStep[];
}

interface PlanParts extends ConfigPlanParts {
  readonly state: StateRegistry;
}

/** Throws 400 with places for what is no document of this platform. */
export async function planImport(
  parts: PlanParts,
  caller: Caller,
  content: StateContent,
  options: PlanOptions,
): Promise<StatePlan> {
  const types = await requireTypes(parts, content);
  const refusals = collectRefusals();
  const configs = await planConfigs(parts, caller, { content, strict: options.strict, refusals });
  const planned = await planTypes(caller, types, { options, refusals });
  const entries = [...configs.map(configEntry), ...planned.flatMap(({ entries: of }) => of)];
  if (options.onConflict === 'fail')
    await refusals.of(async () => refuseConflicts(planned.map(({ step }) => step)));
  return {
    entries,
    checksum: await checksumInSlices(
      entries.filter(({ action }) => action !== 'noop').map(agreedPart),
    ),
    warnings: [...configs, ...planned].flatMap(({ warnings }) => warnings),
    refusals,
    configs: configs.flatMap(({ step, diff }) => (diff.length === 0 ? [] : [step])),
    steps: planned.map(({ step }) => step),
  };
}

const configEntry = ({ module, diff }: PlannedConfig): PlanEntry => ({
  action: diff.length > 0 ? 'update' : 'noop',
  ...{ module, type: 'config', key: module, diff },
});

/** What is agreed to: records come and go between the plan and its import. */
const agreedPart = ({ hides, ...entry }: PlanEntry): object => ({
  ...entry,
  ...(hides && { hides: hides.map(({ field }) => field) }),
});

function refuseConflicts(steps: readonly TypeStep[]): void {
  const conflicts = steps.flatMap(({ changes }) =>
    changes.filter(({ action }) => action === 'update'),
  );
  if (conflicts.length === 0) return;
  throw errors.CONFLICT({
    message: `${conflicts.length} documents differ from what is there, such as ${conflicts[0]?.key}; nothing was changed`,
    errors: conflicts.map(({ key, place }) => ({
      path: place,
      rule: 'conflict',
      message: `${key} is there with another content`,
    })),
  });
}

/* What an import makes of the documents of each type. */

interface PlannedType {
  readonly step: TypeStep;
  readonly entries: readonly PlanEntry[];
  readonly warnings: readonly string[];
}

/** `refusals` takes what the types have to say against their documents, each beside all others of the import. */
async function planTypes(
  caller: Caller,
  parts: readonly KnownPart[],
  { options, refusals }: { readonly options: PlanOptions; readonly refusals: Refusals },
): Promise<readonly PlannedType[]> {
  const planned = new Map<StateType, PlannedType>();
  const find = (module: string, type: string): KnownPart | undefined =>
    parts.find((one) => one.module === module && one.type === type);
  const whole: StateImport = {
    documents: (module, type) => find(module, type)?.documents ?? [],
    changes(module, type) {
      const part = find(module, type);
      return (part && planned.get(part.state)?.step.changes) ?? [];
    },
  };
  for (const part of parts)
    planned.set(part.state, await planType(caller, part, { whole, options, refusals }));
  if (modulesOfCaller(caller) !== undefined)
    for (const { step } of planned.values())
      await refusals.of(() => requireAuthorityOver(caller, step));
  for (const { state, module, type } of parts) {
    const changes = whole.changes(module, type);
    if (changes.length > 0) await refusals.of(async () => state.check?.(caller, changes, whole));
  }
  return Promise.all(
    [...planned.values()].map((one) => withOutlook(caller, one, { whole, refusals })),
  );
}

/** Throws 403 for what a narrow credential would touch beside the modules of its documents. */
async function requireAuthorityOver(caller: Caller, { state, changes }: TypeStep): Promise<void> {
  for (const { before, after, place } of changes)
    for (const document of [before, after])
      if (document)
        await placed(place, async () =>
          requireAuthority(caller, ...(await state.touches(document))),
        );
}

/** What the changes of a type do to stored data, beside their entries. */
async function withOutlook(
  caller: Caller,
  planned: PlannedType,
  { whole, refusals }: Omit<Planning, 'options'>,
): Promise<PlannedType> {
  const { state, changes } = planned.step;
  const outlook =
    changes.length === 0
      ? undefined
      : await refusals.of(async () => state.outlook?.(caller, changes, whole));
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

async function planType(
  caller: Caller,
  part: KnownPart,
  { whole, options, refusals }: Planning,
): Promise<PlannedType> {
  const { state, documents } = part;
  const current = new Map(
    (await storedDocuments(state)).map((document) => [state.keyOf(document), document]),
  );
  // What cannot be completed is shown as it was written, beside the reason.
  const written = documents.map(({ document }) => document);
  const completed =
    documents.length === 0
      ? []
      : ((await refusals.of(() => state.complete(caller, documents, whole))) ?? written);
  const requested = completed.map((after, i) => ({
    after,
    key: state.keyOf(after),
    ...(documents[i] as PlacedDocument),
  }));
  const kept = new Set(requested.map(({ key }) => key));
  const pause = createTimeSlices();
  const planned: Planned[] = [];
  for (const one of requested) {
    planned.push(planDocument(part, current.get(one.key), one, options));
    await pause();
  }
  for (const [key, before] of options.prune ? current : []) {
    if (kept.has(key) || state.isRemovable?.(before) === false) continue;
    planned.push(planRemoval(part, key, before));
    await pause();
  }
  const entries = planned.map(({ entry }) => entry).sort((a, b) => byText(a.key, b.key));
  const skipped = entries.filter((entry) => entry.skipped).length;
  const unchanged = entries.filter(({ action }) => action === 'noop').length - skipped;
  return {
    entries,
    warnings: [],
    step: { state, changes: planned.flatMap(({ change }) => change ?? []), unchanged, skipped },
  };
}

interface Requested extends PlacedDocument {
  readonly key: string;
  readonly after: StateDocument;
}

function planDocument(
  { module, type }: KnownPart,
  before: StateDocument | undefined,
  { key, after, document: given, place }: Requested,
  { onConflict }: PlanOptions,
): Planned {
  if (before && sameValue(before, after))
    return { entry: { action: 'noop', module, type, key, diff: [] } };
  const diff = differencesOf(before, after);
  if (before && onConflict === 'skip')
    return { entry: { action: 'noop', module, type, key, diff, skipped: true } };
  const action = before ? 'update' : 'create';
  return {
    entry: { action, module, type, key, diff },
    change: { action, key, ...(before && { before }), after, given, place },
  };
}

function planRemoval({ module, type }: KnownPart, key: string, before: StateDocument): Planned {
  return {
    entry: { action: 'delete', module, type, key, diff: differencesOf(before, undefined) },
    change: { action: 'delete', key, before, place: `modules.${module}.${type}` },
  };
}
