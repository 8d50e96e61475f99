/** Recurring work of authentication; each run happens on one node. */
import Type from 'typebox';
import type { Database } from '../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import type { AuthenticationConfig } from './config.ts';
import type { AnonymousUsers } from './services/accounts/account-lifecycle.ts';
import { purgeOpenid } from './services/openid/queries.ts';
import { purgeDevices } from './services/sessions/login-guard.ts';
import { purge } from './services/sessions/queries.ts';
import { purgeShareInvitations } from './services/shares/invitation-queries.ts';
import { purgeInvites } from './services/teams/invite-queries.ts';
import { purgeTokens } from './services/tokens/queries.ts';
import { type SigningKeys, signedLifetimeMs } from './services/tokens/signing-keys.ts';

/** Rows that one statement deletes, so that no lock and no transaction lasts long. */
const purgeBatch = 5000;
const nothing = Type.Object({});

export const authenticationJobs = (
  database: Database,
  keys: SigningKeys,
  config: () => AuthenticationConfig,
): readonly JobDefinition[] => [
  defineJob({
    name: 'authentication.purge-sessions',
    data: nothing,
    schedule: '17 * * * *',
    async handler(_data, { signal, log }) {
      let total = 0;
      for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; total += gone)
        gone = await purge(database, purgeBatch);
      if (total > 0) log.info({ rows: total }, 'Purged ended sessions and expired refresh tokens');
    },
  }),
  defineJob({
    name: 'authentication.purge-one-time-tokens',
    data: nothing,
    schedule: '37 * * * *',
    async handler(_data, { signal }) {
      for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; )
        gone = await purgeTokens(database, purgeBatch);
      for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; )
        gone = await purgeOpenid(database, purgeBatch);
    },
  }),
  defineJob({
    name: 'authentication.purge-invites',
    data: nothing,
    schedule: '41 * * * *',
    async handler(_data, { signal }) {
      for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; )
        gone = await purgeInvites(database, purgeBatch);
      for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; )
        gone = await purgeShareInvitations(database, purgeBatch);
    },
  }),
  defineJob({
    name: 'authentication.purge-devices',
    data: nothing,
    schedule: '47 4 * * *',
    async handler(_data, { signal }) {
      for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; )
        gone = await purgeDevices(database, purgeBatch);
    },
  }),
  defineJob({
    name: 'authentication.rotate-signing-key',
    data: nothing,
    schedule: '29 3 * * *',
    async handler(_data, { log }) {
      const { keyRotationPeriod } = config().accessTokens;
      if (await keys.rotate(keyRotationPeriod, signedLifetimeMs(config())))
        log.info({}, 'Made a new signing key for tokens');
    },
  }),
];

/** Anonymous users that one transaction deletes. */
const erasureBatch = 200;

/** Deletes anonymous users who gave no sign of life for long. */
export const anonymousExpiryJob = ({ expire }: Pick<AnonymousUsers, 'expire'>): JobDefinition =>
  defineJob({
    name: 'authentication.expire-anonymous-users',
    data: nothing,
    schedule: '53 * * * *',
    async handler(_data, { signal, log }) {
      let total = 0;
      for (let gone = erasureBatch; gone >= erasureBatch && !signal.aborted; total += gone)
        gone = await expire(erasureBatch);
      if (total > 0)
        log.info({ users: total }, 'Deleted anonymous users who were not used for long');
    },
  });
