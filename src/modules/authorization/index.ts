/**
 * Authorization: who may do what. Relation tuples and resource definitions are
 * the only truth; every answer is computed from them when it is asked for.
 */

import type { CompiledSchema } from '../../data/schema/compile/compiled.ts';
import { createObjectDirectory } from '../../data/schema/object-directory.ts';
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { type Caller, system } from '../../kernel/caller.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import type { PermissionEngine } from '../../kernel/permissions.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { type AuthorizationConfig, authorizationConfig } from './config.ts';
import { purgeChanges, purgeExpired } from './jobs.ts';
import { migrations } from './migrations.ts';
import { clientOperations } from './operations/client.ts';
import { explanationOperations } from './operations/explanations.ts';
import { listOperations } from './operations/lists.ts';
import { maintenanceOperations } from './operations/maintenance.ts';
import { questionOperations } from './operations/questions.ts';
import { relationOperations } from './operations/relations.ts';
import { resourceOperations } from './operations/resources.ts';
import { defineTogether } from './operations/resources-together.ts';
import { roleOperations } from './operations/roles.ts';
import { ruleOperations } from './operations/rules.ts';
import { sharingOperations } from './operations/sharing.ts';
import { authorizationPrompts } from './prompts.ts';
import type { TimedTuple } from './queries.ts';
import { createChangeStreams } from './services/change-stream.ts';
import { createChanges } from './services/changelog.ts';
import { type Checks, createChecks, createLegacyCheck } from './services/checks.ts';
import {
  defineBuiltIn,
  roleUses,
  setTeamMemberAccess,
  type TeamMemberAccess,
} from './services/definitions/built-in.ts';
import { createDefinitions, type Definitions } from './services/definitions/definitions.ts';
import { createModels, type Models } from './services/definitions/models.ts';
import { guardFields, guardRules } from './services/definitions/record-fields.ts';
import { guardWithheldRights } from './services/definitions/withheld-rights.ts';
import { createTellExplanation } from './services/explanation.ts';
import { createFieldTracking } from './services/field-tracking.ts';
import { createGoneOwners } from './services/gone-owners.ts';
import { createOwnerAssignments } from './services/owner-assignment.ts';
import { createOwnerColumns, guardOwnerColumns } from './services/owner-columns.ts';
import { createPermissionEngine } from './services/permission-engine.ts';
import { createRelationChanges } from './services/relation-changes.ts';
import { createHeldRoles, createRoles } from './services/roles.ts';
import { createRowTracking } from './services/row-tracking.ts';
import { createRules } from './services/rules.ts';
import { createSharing, type Sharing } from './services/sharing.ts';
import { createConsistencyTokens, withTokens } from './services/tokens.ts';
import { createTuples, scopedTuples, type Tuples } from './services/tuples.ts';
import { createVerifications } from './services/verification.ts';
import { definitionState, roleState, ruleState } from './state.ts';

export { authorizationErrors } from './errors.ts';
export { type ObjectRef, parseObject, type SubjectRef } from './model/grammar.ts';
export { readPermissionTests } from './permission-test/file.ts';
export { problemLines, resultLines, runPermissionTests } from './permission-test/run.ts';
export type { TimedTuple } from './queries.ts';
export { recordTuples } from './record-tuples.ts';
export type { TeamMemberAccess } from './services/definitions/built-in.ts';
export { countingRelations, uuidOf } from './tuple-sql.ts';

/** What other modules may ask of authorization. */
export interface AuthorizationService
  extends Pick<Definitions, 'define' | 'get' | 'all'>,
    Pick<Tuples, 'removeMatching' | 'list'> {
  readonly can: Checks['holds'];
  readonly canAll: Checks['allHold'];
  /** Idempotent; joins the ambient transaction. Throws 400 for a tuple that the definitions do not allow. */
  relate(caller: Caller, tuples: readonly TimedTuple[]): Promise<void>;
  /** Removes these relations, those that are not there included; joins the ambient transaction. */
  unrelate(caller: Caller, tuples: readonly TimedTuple[]): Promise<void>;
  /** What users give each other. */
  readonly sharing: Pick<Sharing, 'requireGiver' | 'requireOffer' | 'areOpen' | 'accept'>;
  /** What plain members of teams may do with the records of their teams; false where an operator defined `Team` themselves. */
  setTeamMemberAccess(access: TeamMemberAccess): Promise<boolean>;
}

export const authorization = defineModule({
  name: 'authorization',
  description: 'Who may do what: relations, permissions, roles',
  requires: {},
  config: authorizationConfig,
  migrations,
  start,
});

type Context = ModuleContext<AuthorizationConfig>;

/** The services of the module, each made of those before it. */
function createServices({ kernel, config, log }: Context) {
  const { database, events, schemas, records, secrets, jobs } = kernel;
  const models = modelsOf(kernel);
  const hasRecords = (name: string) =>
    schemas.get(name)?.modelOptions.conduit.authorization.enabled === true;
  const objects = createObjectDirectory(kernel);
  const fields = createFieldTracking({ schemas, models, log });
  const definitions = createDefinitions({
    database,
    events,
    models,
    hasRecords,
    objects,
    schemas,
    follow: fields.follow,
    uses: () => [...roleUses, ...[...kernel.permissions.uses.values()].flatMap((uses) => uses())],
  });
  const tuples = createTuples({ database, events, models, schemas });
  const checks = createChecks({ database, models });
  const sharing = createSharing({ ...kernel, models, checks, tuples });
  const tokens = createConsistencyTokens(secrets);
  const heldRoles = createHeldRoles({ database, models });
  const roles = createRoles({ database, events, records, tuples, heldRoles });
  const rules = createRules({ database, events, objects });
  const legacyCheck = createLegacyCheck({ database, records, schemas, models, checks, heldRoles });
  const verifications = createVerifications({ database, jobs, schemas, models });
  const ownerAssignments = createOwnerAssignments({ database, schemas, events, jobs, models });
  const recordSubjects = () => config.current().recordSubjects;
  const engine = createPermissionEngine({
    database,
    schemas,
    tuples,
    models,
    checks,
    definitions,
    ownerAssignments,
    heldRoles,
    recordSubjects,
  });
  return {
    models,
    objects,
    fields,
    definitions,
    tuples,
    checks,
    sharing,
    tokens,
    roles,
    rules,
    legacyCheck,
    verifications,
    ownerAssignments,
    engine,
  };
}

type Services = ReturnType<typeof createServices>;

async function start(context: Context): Promise<RunningModule<AuthorizationService>> {
  const { kernel, config, log } = context;
  const { database, schemas } = kernel;
  const services = createServices(context);
  const { definitions, roles, rules, verifications, ownerAssignments, engine } = services;

  await defineBuiltIn(definitions);
  await roles.install();
  await prepareSchemas(kernel, engine, log);
  const bindAgain = (names: readonly string[]): Promise<void> =>
    definitions.bindAgain(system('authorization'), names).catch((error: unknown) => {
      log.error({ err: error, names }, 'Relations from fields of these schemas count for nothing');
    });
  await bindAgain((await definitions.all()).map(({ name }) => name));
  const tracking = createRowTracking({ database, schemas, log });
  const ownerColumns = createOwnerColumns({ database, schemas, models: services.models, log });
  const goneOwners = createGoneOwners({ ...kernel, models: services.models });
  const unlisten = goneOwners.listen();
  const track = async (found: readonly CompiledSchema[]): Promise<void> => {
    await tracking.track(found);
    await ownerColumns.add(found);
    await services.fields.follow();
  };
  await track(schemas.all());
  listeners.set(kernel, async (names) => {
    await bindAgain(names);
    await track(names.flatMap((name) => schemas.get(name) ?? []));
  });
  listen(kernel);
  kernel.permissions.engine = engine;
  kernel.permissions.takesFields = (schema) => {
    const known = services.models.known();
    return known === undefined || (known.model.get(schema)?.fields.size ?? 0) > 0;
  };

  return {
    service: serviceOf(services),
    operations: operationsOf(context, services),
    prompts: authorizationPrompts,
    jobs: [
      verifications.job,
      ownerAssignments.job,
      tracking.job,
      ownerColumns.job,
      goneOwners.job,
      purgeExpired(kernel, () => config.current().purgeExpired),
      purgeChanges(kernel),
    ],
    state: [
      definitionState(definitions, services.objects),
      roleState(database, roles),
      ruleState(database, rules, services.objects),
    ],
    async stop() {
      unlisten();
      listeners.delete(kernel);
      kernel.permissions.engine = undefined;
      kernel.permissions.takesFields = () => false;
    },
  };
}

const serviceOf = ({ checks, definitions, tuples, sharing }: Services): AuthorizationService => ({
  can: checks.holds,
  canAll: checks.allHold,
  define: definitions.define,
  get: definitions.get,
  all: definitions.all,
  list: tuples.list,
  removeMatching: tuples.removeMatching,
  unrelate: async (caller, gone) => void (await tuples.removeAll(caller, gone)),
  sharing,
  setTeamMemberAccess: (access) => setTeamMemberAccess(definitions, access),
  relate: async (caller, requested) => void (await tuples.write(caller, requested)),
});

function operationsOf({ kernel, config }: Context, services: Services): readonly Operation[] {
  const { database, schemas, events } = kernel;
  const { models, objects, definitions, tuples, checks, tokens } = services;
  const { roles, rules, legacyCheck, verifications, sharing } = services;
  const written = scopedTuples(tuples, objects);
  const changes = createChanges(events);
  return [
    ...sharingOperations(sharing),
    ...clientOperations({ database, models, checks, legacyCheck, tokens }),
    ...relationOperations({
      tuples: written,
      change: createRelationChanges({ database, models, tuples: written }),
      tokens,
      maxBatch: () => config.current().maxBatch,
    }),
    ...withTokens(tokens, [
      ...resourceOperations(definitions),
      defineTogether(definitions),
      ...roleOperations(roles),
      ...ruleOperations(rules),
    ]),
    ...questionOperations({ database, models, checks, tokens }),
    ...explanationOperations({
      database,
      models,
      checks,
      tokens,
      tell: createTellExplanation(kernel),
    }),
    ...listOperations({ database, models, checks, tokens }),
    ...maintenanceOperations({
      database,
      schemas,
      verifications,
      changes,
      streams: createChangeStreams(changes, events),
    }),
  ];
}

/** Schemas may have got row authorization while this module was off, or were restored without their definitions. */
async function prepareSchemas(
  { schemas }: Kernel,
  engine: PermissionEngine,
  log: Logger,
): Promise<void> {
  for (const { name, modelOptions } of schemas.all()) {
    if (!modelOptions.conduit.authorization.enabled) continue;
    await engine.prepare(system('authorization'), name).catch((error: unknown) => {
      log.error(
        { err: error, schema: name },
        'The records of this schema cannot be served until its resource definition fits',
      );
    });
  }
}

/** What changed schemas mean, for kernels whose module runs. A listener of the registry is for life. */
const listeners = new WeakMap<Kernel, (names: readonly string[]) => Promise<void>>();
const listening = new WeakSet<Kernel>();

function listen(kernel: Kernel): void {
  if (listening.has(kernel)) return;
  listening.add(kernel);
  kernel.schemas.guard(guardFields);
  kernel.schemas.guard(guardRules);
  kernel.schemas.guard(guardWithheldRights);
  kernel.schemas.guard(guardOwnerColumns);
  kernel.schemas.onChange((names) => listeners.get(kernel)?.(names));
}

/** Tied to the bus for as long as the process lives, also while the module is switched off and on. */
const lastingModels = new WeakMap<Kernel, Models>();

function modelsOf(kernel: Kernel): Models {
  const models =
    lastingModels.get(kernel) ??
    createModels({ ...kernel, schemaOf: (type) => kernel.schemas.get(type) });
  lastingModels.set(kernel, models);
  return models;
}
