/** Recurring work of authentication; each run happens on one node. */
import Type from 'typebox';
import type { Database } from '../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import type { AuthenticationConfig } from './config.ts';
import type { SigningKeys } from './services/signing-keys.ts';
import { purge } from './session-queries.ts';

/** Rows that one statement deletes, so that no lock and no transaction lasts long. */
const purgeBatch = 5000;
const nothing = Type.Object({});

export const authenticationJobs = (database: Database, keys: SigningKeys, config: () => AuthenticationConfig): readonly JobDefinition[] => [
  defineJob({
    name: 'authentication.purge-sessions',
    data: nothing,
    schedule: '17 * * * *',
    async handler(_data, { signal, log }) {
      let total = 0;
      for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; total += gone) gone = await purge(database, purgeBatch);
      if (total > 0) log.info({ rows: total }, 'Purged ended sessions and expired refresh tokens');
    },
  }),
  defineJob({
    name: 'authentication.rotate-signing-key',
    data: nothing,
    schedule: '29 3 * * *',
    async handler(_data, { log }) {
      const { keyRotationPeriod, expiryPeriod } = config().accessTokens;
      if (await keys.rotate(keyRotationPeriod, expiryPeriod)) log.info({}, 'Made a new signing key for access tokens');
    },
  }),
];
