/** The server's own statistics of statements, where the extension pg_stat_statements is installed. */

import type { Database } from '../../../../kernel/database/database.ts';
import { cutText } from '../../../../kernel/text.ts';
import { readServerStatements, type ServerStatement } from '../../insight-queries.ts';

const MAX_TEXT = 500;

/** `undefined` where the extension is missing, or not loaded into the server. */
export async function serverStatements(database: Database, schema: string | null): Promise<readonly ServerStatement[] | undefined> {
  if (schema === null) return undefined;
  try {
    const found = await database.part((part) => readServerStatements(part, schema));
    return found.map((statement) => ({ ...statement, text: cutText(withoutValues(statement.text), MAX_TEXT) }));
  } catch {
    return undefined;
  }
}

/**
 * The extension puts placeholders for values, but for some that it saw too late; comments are never taken out.
 * A text in dollar quotes ends what is shown.
 */
export const withoutValues = (text: string): string =>
  text
    .replace(/'(?:[^']|'')*(?:'|$)/g, "'...'")
    .replace(/\/\*[\s\S]*?(?:\*\/|$)|--[^\n]*/g, '')
    .replace(/\$(?:[a-z_]\w*)?\$[\s\S]*$/i, '...')
    .replace(/(?<![\w$."])\d+(?:\.\d+)?\b/g, '?')
    .replace(/\s+/g, ' ')
    .trim();
