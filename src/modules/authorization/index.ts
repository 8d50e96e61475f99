/**
 * Authorization: who may do what. Relation tuples and resource definitions are
 * the only truth; every answer is computed from them when it is asked for.
 */

import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { createObjectDirectory } from '../../kernel/authority/about.ts';
import { type Caller, system } from '../../kernel/caller.ts';
import type { PermissionEngine } from '../../kernel/permissions.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { type AuthorizationConfig, authorizationConfig } from './config.ts';
import { purgeChanges, purgeExpired } from './jobs.ts';
import { migrations } from './migrations.ts';
import { clientOperations } from './operations/client.ts';
import { withTokens } from './operations/consistency.ts';
import { maintenanceOperations } from './operations/maintenance.ts';
import { questionOperations } from './operations/questions.ts';
import { relationOperations } from './operations/relations.ts';
import { resourceOperations } from './operations/resources.ts';
import { roleOperations } from './operations/roles.ts';
import { ruleOperations } from './operations/rules.ts';
import type { TimedTuple } from './queries.ts';
import { createAdoptions } from './services/adoption.ts';
import { defineBuiltIn, setTeamMemberAccess, type TeamMemberAccess } from './services/built-in.ts';
import { createChanges } from './services/changes.ts';
import { type Checks, createChecks } from './services/checks.ts';
import { createDefinitions, type Definitions } from './services/definitions.ts';
import { createHeldRoles } from './services/held-roles.ts';
import { createLegacyCheck } from './services/legacy-check.ts';
import { createModels, type Models } from './services/models.ts';
import { createPermissionEngine } from './services/permission-engine.ts';
import { createRoles } from './services/roles.ts';
import { createRowTracking, type RowTracking } from './services/row-tracking.ts';
import { createRules } from './services/rules.ts';
import { scopedTuples } from './services/scoped-tuples.ts';
import { createConsistencyTokens } from './services/tokens.ts';
import { createTuples, type Tuples } from './services/tuples.ts';
import { createVerifications } from './services/verification.ts';
import { definitionState } from './state/definitions.ts';
import { roleState } from './state/roles.ts';
import { ruleState } from './state/rules.ts';

export type { SubjectRef } from './model/grammar.ts';
export { readPermissionTests } from './permission-test/file.ts';
export { problemLines, resultLines } from './permission-test/report.ts';
export { runPermissionTests } from './permission-test/run.ts';
export type { TimedTuple } from './queries.ts';
export { recordTuples } from './record-tuples.ts';
export type { TeamMemberAccess } from './services/built-in.ts';
export { countingRelations, uuidOf } from './tuple-sql.ts';

/** What other modules may ask of authorization. */
export interface AuthorizationService
  extends Pick<Checks, 'can' | 'canAll'>,
    Pick<Definitions, 'define'>,
    Pick<Tuples, 'removeMatching' | 'list'> {
  /** Idempotent; joins the ambient transaction. Throws 400 for a tuple that the definitions do not allow. */
  relate(caller: Caller, tuples: readonly TimedTuple[]): Promise<void>;
  /** Removes these relations, those that are not there included; joins the ambient transaction. */
  unrelate(caller: Caller, tuples: readonly TimedTuple[]): Promise<void>;
  /** What plain members of teams may do with the records of their teams; false where an operator defined `Team` himself. */
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

async function start({ kernel, config, log }: ModuleContext<AuthorizationConfig>): Promise<RunningModule<AuthorizationService>> {
  const { database, events, schemas, records, secrets, jobs } = kernel;
  const models = modelsOf(kernel);
  const hasRecords = (name: string) => schemas.get(name)?.modelOptions.conduit.authorization.enabled === true;
  const objects = createObjectDirectory(kernel);
  const definitions = createDefinitions({ database, events, models, hasRecords, objects });
  const tuples = createTuples({ database, events, models, schemas });
  const checks = createChecks({ database, models });
  const tokens = createConsistencyTokens(secrets);
  const heldRoles = createHeldRoles({ database, models });
  const roles = createRoles({ database, events, records, tuples, heldRoles });
  const rules = createRules({ database, events });
  const legacyCheck = createLegacyCheck({ database, records, schemas, models, checks, heldRoles });
  const verifications = createVerifications({ database, jobs, schemas, models });
  const adoptions = createAdoptions({ database, schemas, events, jobs });
  const recordSubjects = () => config.current().recordSubjects;
  const engine = createPermissionEngine({ database, models, checks, definitions, adoptions, heldRoles, recordSubjects });

  await defineBuiltIn(definitions);
  await roles.install();
  await prepareSchemas(kernel, engine, log);
  const tracking = createRowTracking({ database, schemas, log });
  await tracking.track(schemas.all());
  trackings.set(kernel, tracking);
  trackChanges(kernel);
  kernel.permissions.engine = engine;

  return {
    service: {
      can: checks.can,
      canAll: checks.canAll,
      define: definitions.define,
      list: tuples.list,
      removeMatching: tuples.removeMatching,
      unrelate: tuples.removeAll,
      setTeamMemberAccess: (access) => setTeamMemberAccess(definitions, access),
      relate: async (caller, wanted) => void (await tuples.write(caller, wanted)),
    },
    operations: [
      ...clientOperations({ database, models, checks, legacyCheck, tokens }),
      ...relationOperations({ tuples: scopedTuples(tuples, objects), tokens, maxBatch: () => config.current().maxBatch }),
      ...withTokens(tokens, [...resourceOperations(definitions), ...roleOperations(roles), ...ruleOperations(rules)]),
      ...questionOperations({ database, models, checks, tokens }),
      ...maintenanceOperations({ database, schemas, verifications, changes: createChanges(events) }),
    ],
    jobs: [verifications.job, adoptions.job, tracking.job, purgeExpired(kernel, () => config.current().purgeExpired), purgeChanges(kernel)],
    state: [definitionState(definitions), roleState(database, roles), ruleState(database, rules)],
    async stop() {
      trackings.delete(kernel);
      kernel.permissions.engine = undefined;
    },
  };
}

/** Schemas may have got row authorization while this module was off, or were restored without their definitions. */
async function prepareSchemas({ schemas }: Kernel, engine: PermissionEngine, log: Logger): Promise<void> {
  for (const { name, modelOptions } of schemas.all()) {
    if (!modelOptions.conduit.authorization.enabled) continue;
    await engine.prepare(system('authorization'), name).catch((error: unknown) => {
      log.error({ err: error, schema: name }, 'The records of this schema cannot be served until its resource definition fits');
    });
  }
}

/** Of kernels whose module runs. A listener of the registry is for life. */
const trackings = new WeakMap<Kernel, RowTracking>();
const listening = new WeakSet<Kernel>();

function trackChanges(kernel: Kernel): void {
  if (listening.has(kernel)) return;
  listening.add(kernel);
  kernel.schemas.onChange((names) => trackings.get(kernel)?.track(names.flatMap((name) => kernel.schemas.get(name) ?? [])));
}

/** Tied to the bus for as long as the process lives, also while the module is switched off and on. */
const lastingModels = new WeakMap<Kernel, Models>();

function modelsOf(kernel: Kernel): Models {
  const models = lastingModels.get(kernel) ?? createModels(kernel);
  lastingModels.set(kernel, models);
  return models;
}
