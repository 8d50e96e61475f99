/** Takes the fields that users could write before an upgrade over into the configuration, once. */
import { system } from '../../../kernel/caller.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { UserDataConfig } from './user-data.ts';

interface Dependencies extends Pick<Kernel, 'database' | 'config'> {
  readonly userDataConfig: () => UserDataConfig;
  readonly log: Logger;
}

/**
 * Moves them in the background, because a configuration changes only once its module has started. Doing it on two
 * nodes at once comes to the same.
 */
export async function keepOpenFields(dependencies: Dependencies): Promise<void> {
  const { rows } = await dependencies.database.query<{ field: string }>(sql`select field from penstock.open_user_fields order by field`);
  const fields = rows.map(({ field }) => field);
  if (fields.length > 0) void moveTo(dependencies, fields);
}

async function moveTo({ database, config, userDataConfig, log }: Dependencies, fields: readonly string[]): Promise<void> {
  const openFields = [...new Set([...userDataConfig().openFields, ...fields])].sort();
  try {
    await config.change(system('upgrade of user data'), 'authentication', { userData: { openFields } });
    await database.query(sql`delete from penstock.open_user_fields where field = any(${fields}::text[])`);
    log.warn(
      { openFields },
      'Users may go on writing these fields of their account; new ones are for the server unless access.write opens them',
    );
  } catch (error) {
    log.error(
      { err: error, openFields },
      'The fields that users may write could not be noted in the configuration; the next start tries again',
    );
  }
}
