/** What can be wrong with the settings of an endpoint: what would never deliver anything is refused when it is stored. */
import { all, fieldTest, literal } from '../../../data/conditions/condition.ts';
import { parseFilter } from '../../../data/conditions/parse.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import type { EndpointSettings } from '../queries.ts';
import { verbs } from './event-types.ts';
import type { WebhookParts } from './parts.ts';

export const problem = (path: string, rule: string, message: string): Problem => ({
  path,
  rule,
  message,
});

export function urlProblems(text: string, allowInternal: boolean): readonly Problem[] {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isSafe =
    url?.protocol === 'https:' || (url?.protocol === 'http:' && allowInternal === true);
  if (!url || !isSafe)
    return [problem('url', 'format', 'must be an address that begins with https://')];
  if (url.username !== '' || url.password !== '')
    return [problem('url', 'format', 'must hold no credentials: deliveries are signed')];
  return [];
}

const recordTypes = Object.values(verbs).map((verb) => `record.${verb}`);

/** Types that no event can ever have. */
export const eventProblems = (
  { modules }: Pick<WebhookParts, 'modules'>,
  events: readonly string[],
): readonly Problem[] => {
  const origins = ['record', ...modules.list().map(({ name }) => name)];
  return events.flatMap((pattern, at) => {
    const message = eventProblem(pattern, origins);
    return message === undefined ? [] : [problem(`events.${at}`, 'enum', message)];
  });
};

function eventProblem(pattern: string, origins: readonly string[]): string | undefined {
  const [origin = '', what = ''] = pattern.split('.');
  const isPrefix = pattern.endsWith('*');
  if (isPrefix && !pattern.includes('.'))
    return origins.some((one) => one.startsWith(pattern.slice(0, -1))) ? undefined : known(origins);
  if (what === '' || !origins.includes(origin)) return known(origins);
  const isAboutRecords = /^database\.(?:create|update|delete)\.(?!schema$)/.test(pattern);
  if (isAboutRecords) return `records are ${recordTypes.join(', ')}, and "schemas" says of which`;
  if (origin !== 'record') return undefined;
  const isType = isPrefix
    ? recordTypes.some((type) => type.startsWith(pattern.slice(0, -1)))
    : recordTypes.includes(pattern);
  return isType ? undefined : `of records there are ${recordTypes.join(', ')}`;
}

const known = (origins: readonly string[]): string =>
  `such as record.created: it begins with ${origins.join(', ')}, and a dot`;

export const schemaProblems = (
  names: readonly string[],
  found: readonly (CompiledSchema | undefined)[],
): readonly Problem[] =>
  names.flatMap((name, i) =>
    found[i] ? [] : [problem(`schemas.${i}`, 'exists', `there is no schema ${name}`)],
  );

/**
 * A condition must make sense for the records of every schema of the endpoint: these are asked, about no record. Deliveries
 * tell whether it holds, so it is about what its author may read. Throws 403 for what belongs to other modules.
 */
export async function conditionProblems(
  { records, database }: Pick<WebhookParts, 'records' | 'database'>,
  caller: Caller,
  {
    schemas,
    condition,
  }: Pick<EndpointSettings, 'schemas'> & {
    readonly condition: NonNullable<EndpointSettings['condition']>;
  },
): Promise<readonly Problem[]> {
  if (schemas.length === 0)
    return [
      problem('condition', 'schemas', 'a condition needs the schemas whose records it is about'),
    ];
  const nothing = fieldTest('_id', { kind: 'in', right: literal([]) });
  const filter = all(parseFilter(condition, 'condition'), nothing);
  for (const schema of schemas) {
    try {
      await database.part(() => records.find(caller, schema, { filter, granted: true }));
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status >= 500) throw error;
      if (error.status === 403) throw error;
      return (error.errors ?? [problem('condition', 'type', error.message)]).map((one) => ({
        ...one,
        message: `${schema}: ${one.message}`,
      }));
    }
  }
  return [];
}
