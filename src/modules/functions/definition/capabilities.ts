/** What of `ctx` a function may use, by name: `database:read:Order`, `secrets`, `fetch`. */
import Type from 'typebox';
import type { Problem } from '../../../kernel/errors.ts';

const capability = '^[a-z]+(:[A-Za-z0-9_*.-]+){0,2}$';

export const capabilityShape = Type.Array(Type.String({ maxLength: 100, pattern: capability }), {
  maxItems: 100,
  description: 'What of `ctx` the code may use; all of it unless given',
});

/** The parts of `ctx`, and what can be said of each; nothing where that is open (names of operations, keys, hosts). */
const capabilities: ReadonlyMap<string, readonly string[] | undefined> = new Map([
  ['database', ['read', 'write']],
  ['auth', ['user', 'userById', 'can']],
  ['files', ['get', 'list', 'url', 'read', 'create', 'delete']],
  ['messages', ['email', 'sms', 'push', 'send']],
  ['search', ['query']],
  ['realtime', ['publish', 'toUser']],
  ['call', undefined],
  ['fetch', undefined],
  ['secrets', undefined],
]);

const wrong = (path: string, message: string): Problem => ({ path, rule: 'enum', message });

/** A capability that nothing needs lets the code do nothing, and says so to its first caller only. */
export const capabilityProblems = (given: readonly string[] = []): readonly Problem[] =>
  given.flatMap((one, at) => {
    const path = `inputs.capabilities.${at}`;
    const [part = '', what = '*'] = one.split(':');
    if (!capabilities.has(part))
      return wrong(path, `begins with one of ${[...capabilities.keys()].join(', ')}`);
    const known = capabilities.get(part);
    return known === undefined || what === '*' || known.includes(what)
      ? []
      : wrong(path, `${part}: goes on with ${known.join(', ')} or *`);
  });
