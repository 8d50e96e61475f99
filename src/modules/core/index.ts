/**
 * Core: the admins of the platform, their credentials, the configuration of all
 * modules, and health. It cannot be switched off.
 *
 * The admin surface's own settings are a second configuration document, `admin`,
 * registered here: it belongs to no part that could start, stop or serve by
 * itself, so a module of its own would be an empty one.
 */

import type { Kernel } from '../../host/kernel.ts';
import { defineModule } from '../../host/module.ts';
import type { ConfigHandle } from '../../kernel/config/config-definition.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import { masterKeyWeakness } from '../../kernel/settings/default-environment.ts';
import { StartError } from '../../kernel/start-error.ts';
import {
  type AdminConfig,
  adminConfig,
  type CoreConfig,
  coreConfig,
  coreConfigFor,
} from './config.ts';
import { purgeApiTokens, purgeAuditLog } from './jobs.ts';
import { migrations } from './migrations.ts';
import { adminOperations } from './operations/admins.ts';
import { apiTokenOperations, serviceAccountOperations } from './operations/api-tokens.ts';
import { auditOperations } from './operations/audit.ts';
import { configOperations } from './operations/config.ts';
import { configDocsOperations } from './operations/config-docs.ts';
import { configVersionOperations } from './operations/config-versions.ts';
import { healthOperations } from './operations/health.ts';
import { secondFactorOperations, sessionOperations } from './operations/session.ts';
import { stateOperations } from './operations/state.ts';
import { createAccounts } from './services/accounts.ts';
import {
  createAdminIdentity,
  createAdminTokens,
  createMasterKeyCheck,
} from './services/admin-identity.ts';
import { bootstrapAdmin, createAdmins, type KeepPassword } from './services/admins.ts';
import { createApiTokens } from './services/api-tokens.ts';
import { createFailureQuotas } from './services/failure-quotas.ts';
import { createReadiness } from './services/readiness.ts';
import { createSessions, type LoginOutcome } from './services/sessions.ts';
import { reportDamaged } from './services/state/document.ts';
import { createState } from './services/state/platform-state.ts';
import { createOwnTwoFactor, createTwoFactor } from './services/two-factor.ts';

export type { AdminConfig, CoreConfig } from './config.ts';

/** What the composition root hands to the surfaces, and tells the operator. Read anew for each use: configuration changes while running. */
export interface CoreService {
  /** Makes the first admin when there is none; a password that it made up goes to `keep` first. */
  createFirstAdmin(keep: KeepPassword): Promise<void>;
  environment(): CoreConfig['env'];
  /** Configuration of the platform as a whole. */
  readonly config: ConfigHandle<CoreConfig>;
  /** Configuration of the admin surface. With the CORS origin `*`, credentials are without effect. */
  readonly adminConfig: ConfigHandle<AdminConfig>;
  /** Whether the API documents of the admin surface need no credential. */
  adminDocsPublic(): boolean;
}

export const core = defineModule<typeof coreConfig.schema, CoreService>({
  name: 'core',
  description: 'The platform itself: health, configuration, admins and their credentials',
  requires: {},
  essential: true,
  config: coreConfig,
  configFor: coreConfigFor,
  migrations,
  async start({ kernel, config, log }) {
    const admin = await kernel.config.register<AdminConfig>('admin', adminConfig);
    const { operations, identity } = assemble(kernel, config, admin);
    kernel.identity.admin = identity;
    measureModules(kernel);
    const { database, passwords, settings } = kernel;
    return {
      service: {
        ...serviceOf(config, admin),
        createFirstAdmin: (keep) =>
          bootstrapAdmin({
            database,
            passwords,
            log,
            initialPassword: settings.adminInitialPassword,
            keep,
          }),
      },
      operations,
      jobs: [
        purgeApiTokens(database),
        purgeAuditLog(kernel.audit, () => config.current().audit.retentionDays),
      ],
      async stop() {
        kernel.identity.admin = undefined;
      },
    };
  },
});

/** Builds the services over the kernel, and the operations over the services. */
function assemble(
  kernel: Kernel,
  config: ConfigHandle<CoreConfig>,
  admin: ConfigHandle<AdminConfig>,
) {
  const { database, secrets, passwords, settings } = kernel;
  const quotas = createFailureQuotas(kernel.durableLimits, () => admin.current().rateLimit);
  const accounts = createAccounts(kernel);
  const tokens = createAdminTokens(secrets);
  const apiTokens = createApiTokens(kernel);
  const twoFactor = createTwoFactor(database, secrets);
  const lifetimeSeconds = () => admin.current().auth.tokenExpirationTime;
  const count = loginCounter(kernel);
  const sessions = createSessions({
    database,
    passwords,
    accounts,
    tokens,
    twoFactor,
    quotas,
    lifetimeSeconds,
    count,
  });
  const admins = createAdmins({ database, passwords, accounts, twoFactor, quotas });
  const identity = createAdminIdentity({
    accounts,
    tokens,
    apiTokens,
    checkMasterKey: createMasterKeyCheck(masterKeys(kernel), quotas),
    masterKeyMode: () => admin.current().auth.masterkeyMode,
    enforcePasswordChange: () => config.current().env !== 'development',
  });
  const readiness = createReadiness({
    health: kernel.health,
    modules: kernel.modules,
    settings: settings.ready,
    look: () => reportDamaged(kernel.state.all(), kernel.health),
  });
  const operations: readonly Operation[] = [
    ...healthOperations({ readiness, identity, publicDetails: settings.ready.publicDetails }),
    ...sessionOperations(sessions),
    ...adminOperations(admins, sessions),
    ...secondFactorOperations(createOwnTwoFactor(accounts, twoFactor, quotas), sessions),
    ...apiTokenOperations(apiTokens, kernel.modules),
    ...serviceAccountOperations(apiTokens),
    ...auditOperations(kernel.audit),
    ...configOperations(kernel.config, kernel.modules, () => config.current().configuration.strict),
    ...configVersionOperations(kernel.config),
    ...configDocsOperations(kernel.config),
    ...stateOperations(
      createState({ ...kernel, handle: config, environment: settings.stateSecrets }),
    ),
  ];
  return { operations, identity };
}

/** In production a key that anybody can guess opens nothing, also while it is rotated away: it unseals what it has sealed. */
function masterKeys({ settings, log }: Pick<Kernel, 'settings' | 'log'>): readonly string[] {
  const { masterKey, masterKeyPrevious, defaultEnvironment } = settings;
  if (!masterKey)
    throw new StartError('MASTER_KEY is missing: set it, or let the data folder keep one');
  if (!masterKeyPrevious) return [masterKey];
  const weakness = masterKeyWeakness(masterKeyPrevious);
  if (weakness === undefined || defaultEnvironment.env !== 'production')
    return [masterKey, masterKeyPrevious];
  log.warn(
    {},
    `MASTER_KEY_PREVIOUS ${weakness}: it opens what it has sealed, and is no credential`,
  );
  return [masterKey];
}

/** 1 while a module serves, also under the names of former modules that are parts of it. */
function measureModules({ metrics, modules }: Kernel): void {
  const read = () =>
    modules.list().flatMap(({ name, formerly = [], serving }) =>
      [name, ...formerly].map((module_name) => ({
        labels: { module_name },
        value: serving ? 1 : 0,
      })),
    );
  metrics.gauge('module_health_state', 'Whether each module serves', read, ['module_name']);
}

function loginCounter({ metrics }: Kernel): (outcome: LoginOutcome) => void {
  const logins = metrics.counter(
    'admin_login_requests_total',
    'Logins on the admin surface by outcome',
    ['outcome'],
  );
  return (outcome) => logins.inc({ outcome });
}

function serviceOf(
  config: ConfigHandle<CoreConfig>,
  admin: ConfigHandle<AdminConfig>,
): Omit<CoreService, 'createFirstAdmin'> {
  const environment = () => config.current().env;
  return {
    environment,
    config,
    adminConfig: admin,
    adminDocsPublic() {
      const { public: requested } = admin.current().docs;
      return requested === 'auto' ? environment() === 'development' : requested;
    },
  };
}
