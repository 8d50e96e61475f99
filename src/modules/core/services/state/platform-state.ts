/** The state of the platform as one document: what it is, what a document would change, and making it so. */

import type { Kernel } from '../../../../host/kernel.ts';
import {
  type AuthorityObject,
  hasAuthority,
  requireAuthority,
} from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { byText, canonical, checksumInSlices } from '../../../../kernel/canonical.ts';
import { type ConfigHandle, moduleOfConfig } from '../../../../kernel/config/config-definition.ts';
import type { ConfigService } from '../../../../kernel/config/config-service.ts';
import type { SchemaNode, Tree } from '../../../../kernel/config/tree.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import type { StateType } from '../../../../kernel/state.ts';
import { cutText } from '../../../../kernel/text.ts';
import { mapInSlices } from '../../../../kernel/time-slices.ts';
import { version } from '../../../../kernel/version.ts';
import type { CoreConfig } from '../../config.ts';
import { applyPlan, type ImportResult, nested, type OfType } from './apply.ts';
import { FORMAT_VERSION, readState, type StateContent, storedDocuments } from './document.ts';
import { type PlanOptions, planImport, type StatePlan } from './plan.ts';
import { referencesIn, withReferences } from './secrets.ts';
import { takeOver } from './take-over.ts';

export interface ExportOptions {
  /** Only these modules; all unless set. Throws 404 for one that is not there. */
  readonly modules?: readonly string[] | undefined;
  /** Only these types, as `schemas` or `database.schemas`; `config` is that of the configurations. Throws 404 likewise. */
  readonly types?: readonly string[] | undefined;
  /** Secrets in clear; for super admins only. */
  readonly reveal: boolean;
}

/** The document. Equal states of equal platforms have equal ones. */
export interface ExportedState {
  readonly formatVersion: number;
  readonly platformVersion: string;
  /** Of `configs` and `modules`. */
  readonly checksum: string;
  readonly configs: { readonly modules: Readonly<Record<string, unknown>> };
  readonly modules: Readonly<Record<string, Readonly<Record<string, readonly unknown[]>>>>;
}

export type StateRequest = Omit<PlanOptions, 'strict'>;

export interface ImportOptions extends StateRequest {
  /** Checksum of the plan that was agreed to; needed where something is taken away. */
  readonly confirm?: string | undefined;
  readonly continueOnError: boolean;
}

export interface State {
  export(caller: Caller, options: ExportOptions): Promise<ExportedState>;
  /** With what an import would be refused with; throws 400 for what is no document of this platform. */
  plan(caller: Caller, body: Tree, options: StateRequest): Promise<StatePlan>;
  /** Throws 400 without a change for what is not valid, 409 while another import runs, 412 for a plan that is not the confirmed one. */
  import(
    caller: Caller,
    body: Tree,
    options: ImportOptions,
  ): Promise<ImportResult & { readonly plan: StatePlan }>;
}

type Parts = Pick<Kernel, 'config' | 'state' | 'database' | 'log'> & {
  readonly handle: ConfigHandle<CoreConfig>;
  /** Where references of secrets are looked up. */
  readonly environment: Readonly<Record<string, string | undefined>>;
};

/** Taken by an import, over all nodes. */
const LOCK = 'state.import';

export function createState(dependencies: Parts): State {
  const { config, state, database, log, handle, environment } = dependencies;
  const planOf = async (
    caller: Caller,
    given: StateContent,
    options: StateRequest,
  ): Promise<StatePlan> => {
    const { content, warnings } = await takeOver(config, caller, given);
    requireScope(config, caller, [
      ...content.types.map(({ module }) => module),
      ...content.configs.keys(),
    ]);
    const strict = handle.current().configuration.strict;
    const plan = await planImport({ config, state, environment }, caller, content, {
      ...options,
      strict,
    });
    return {
      ...plan,
      warnings: [
        ...warnings,
        ...plan.warnings,
        ...(await editedWarning(given)),
        ...idleSecretWarnings(content),
      ],
    };
  };

  return {
    export: (caller, options) => exportState(dependencies, caller, options),
    plan: (caller, body, options) => planOf(caller, readState(body), options),
    async import(caller, body, { confirm, continueOnError, ...options }) {
      const content = readState(body);
      const done = await database.tryLock(LOCK, async () => {
        const plan = await planOf(caller, content, options);
        plan.refusals.refuse();
        requireConfirmed(plan, confirm);
        return { ...(await applyPlan({ config, log, continueOnError }, caller, plan)), plan };
      });
      if (!done)
        throw errors.CONFLICT({
          message: 'Another import is running: wait for its end',
          retryAfter: 5,
        });
      return done;
    },
  };
}

async function exportState(
  { config, state, database }: Parts,
  caller: Caller,
  { modules, types, reveal }: ExportOptions,
): Promise<ExportedState> {
  requireKnown(modules ?? [], config.modules());
  requireScope(config, caller, modules ?? []);
  requireKnownTypes(types ?? [], [...config.modules().map(configType), ...state.all()]);
  const requested = (one: TypeName): boolean =>
    (modules?.includes(one.module) ?? hasAuthority(caller, moduleObject(config, one.module))) &&
    (types?.some((name) => isNamed(one, name)) ?? true);
  // One snapshot: what is changed meanwhile is in the document as a whole or not at all.
  return database.transaction(
    async () => {
      const configs: [string, Tree][] = [];
      for (const { module } of config.modules().map(configType).filter(requested)) {
        const { config: current } = await config.read(caller, module, { reveal });
        const node = config.definition(module)?.schema as SchemaNode;
        configs.push([module, reveal ? current : withReferences(module, node, current)]);
      }
      const exported: OfType<readonly unknown[]>[] = [];
      for (const type of state.all().filter(requested)) exported.push(await exportedType(type));
      return await stateOf(Object.fromEntries(configs), exported);
    },
    { isolation: 'repeatable read', readOnly: true },
  );
}

async function exportedType(state: StateType): Promise<OfType<readonly unknown[]>> {
  const keyed = await mapInSlices(
    await storedDocuments(state),
    (document) => [state.keyOf(document), canonical(document)] as const,
  );
  const value = keyed.sort(([a], [b]) => byText(a, b)).map(([, document]) => document);
  return { module: state.module, type: state.type, value };
}

/** The documents of `types` are in their canonical form. */
async function stateOf(
  configs: Readonly<Record<string, unknown>>,
  types: readonly OfType<readonly unknown[]>[],
): Promise<ExportedState> {
  const sorted = types.toSorted((a, b) => byText(a.module, b.module) || byText(a.type, b.type));
  const content = {
    configs: canonical({ modules: configs }) as ExportedState['configs'],
    modules: nested(sorted),
  };
  return {
    formatVersion: FORMAT_VERSION,
    platformVersion: version,
    checksum: await checksumInSlices(content),
    ...content,
  };
}

/** A document may be edited: that it was is worth a word, no more. */
async function editedWarning({
  checksum,
  configs,
  types,
}: StateContent): Promise<readonly string[]> {
  if (checksum === undefined) return [];
  const modules = nested(
    types.map(({ module, type, documents }) => ({
      module,
      type,
      value: documents.map(({ document }) => document),
    })),
  );
  const actual = await checksumInSlices({
    configs: { modules: Object.fromEntries(configs) },
    modules,
  });
  return actual === checksum
    ? []
    : ['The document was changed after its export: its checksum is not that of its content'];
}

/** A value under a misspelt name changes nothing; whoever sends it believes that it does. */
const idleSecretWarnings = ({ configs, secrets }: StateContent): readonly string[] => {
  const used = referencesIn([...configs.values()]);
  return [...secrets.keys()]
    .filter((name) => !used.has(name))
    .map(
      (name) =>
        `secrets["${cutText(name, 256)}"] is of no effect: nothing in the document refers to it`,
    );
};

function requireConfirmed({ entries, checksum }: StatePlan, confirm: string | undefined): void {
  const deletes = entries.filter(({ action }) => action === 'delete').length;
  const hides = entries.flatMap(({ hides: fields = [] }) => fields).length;
  if (confirm === undefined && deletes + hides > 0) {
    const what = `${counted(deletes, 'thing')} and ${counted(hides, 'field')} would be taken away`;
    throw invalid(
      'confirm',
      'required',
      `${what}: send the checksum of the plan (dryRun=true shows it)`,
    );
  }
  if (confirm !== undefined && confirm !== checksum)
    throw errors.PRECONDITION_FAILED({
      message: 'The plan is not the one that was confirmed: look at it again (dryRun=true)',
    });
}

const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

function requireKnown(modules: readonly string[], known: readonly string[]): void {
  const unknown = modules.find((module) => !known.includes(module));
  if (unknown !== undefined)
    throw errors.NOT_FOUND({ message: `There is no module "${cutText(unknown, 64)}"` });
}

type TypeName = Pick<StateType, 'module' | 'type'>;

const configType = (module: string): TypeName => ({ module, type: 'config' });

const isNamed = ({ module, type }: TypeName, name: string): boolean =>
  name === type || name === `${module}.${type}`;

function requireKnownTypes(names: readonly string[], known: readonly TypeName[]): void {
  const unknown = names.find((name) => !known.some((one) => isNamed(one, name)));
  if (unknown !== undefined)
    throw errors.NOT_FOUND({ message: `There is no type "${cutText(unknown, 128)}" of state` });
}

const moduleObject = (config: ConfigService, name: string): AuthorityObject => ({
  kind: 'module',
  module: moduleOfConfig(name, config.definition(name) ?? {}),
});

/** A token that is narrowed to modules sees and changes the state of no other: neither what it keeps nor its configuration. */
const requireScope = (config: ConfigService, caller: Caller, modules: readonly string[]): void =>
  requireAuthority(caller, ...modules.map((module) => moduleObject(config, module)));
