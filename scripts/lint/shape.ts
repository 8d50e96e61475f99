/** Rules about names and sizes of product code that no off-the-shelf tool checks: closures are counted, words are looked into. */
import type { Problem } from './house-rules.ts';
import type { SourceFile } from './imports.ts';

/** Lines of code of a function with its closures. */
export const MAX_FUNCTION_LINES = 60;

/** Words of our own that the field has standard words for: what stands here is refused in names of files and in identifiers. */
const retired: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'desk beholder sight': 'request scope, viewer, visible fields',
    'believe believed believer': 'optimistic read, cached',
    'ascend ascent climb climbed': 'reverse expansion, reachable set',
    follower: 'change tracker, reader',
    afresh: 'retry on stale schema',
    'anew misspelt': 'again; unknown',
    'misfit misfits hostile': 'invalid',
    'owed owes': 'required, pending',
    'linger lingers': 'drain',
    'census tally': 'statistics, counts, builder',
    'clash clashes': 'conflict',
    intent: 'plan, wanted index, change',
    circumstances: 'evaluation context',
    hearing: 'subscription rights, listening',
    'companion companions': 'optional module, transaction hook',
    'alongside accompanied': 'withTransactionHook, recordWith, hooked',
    'claiming entrance': 'account takeover guard, joinTeam',
    unsaid: 'unspecified, omitted',
    worlds: 'data sets, models',
    'wish wishes': 'request, options, change',
    'wanted unwanted': 'requested, selected, enabled',
    shown: 'view, visible, response',
    'settled unsettled': 'completed, resolved, done',
    'fault faults faulty': 'problem, failure, error, invalid',
    former: 'legacy, previous',
    'leans lean': 'dependencies, depends on',
    'mend mends mendable': 'repair, usable',
    'discharge disown disowned': 'release usage, clear owner, revoked',
    'newcomer newcomers': 'new member, new account',
    sayable: 'writable, candidate',
  }).flatMap(([words, standard]) => words.split(' ').map((word) => [word, standard] as const)),
);

/** Tests may name what they like; their files may not. */
export function checkNames({ path, identifiers }: SourceFile): Problem[] {
  const names = [path.slice('src/'.length), ...(/\.test\.ts$/.test(path) ? [] : identifiers)];
  return names.flatMap((name) => retiredIn(path, name));
}

/** Product code everywhere; tests may be as long as their cases. */
export function checkSizes({ path, functions }: SourceFile): Problem[] {
  if (!path.startsWith('src/') || isTest(path)) return [];
  return functions
    .filter(({ lines }) => lines > MAX_FUNCTION_LINES)
    .map(({ name, line, lines }) => ({
      path: `${path}:${line}`,
      message: `${name} has ${lines} lines of code, closures included (most: ${MAX_FUNCTION_LINES})`,
    }));
}

const isTest = (path: string): boolean =>
  /\.test\.ts$|\/(test-support|property|conformance)\//.test(path);

/** Names in capitals alone are codes that clients know: they stay as they are. */
function retiredIn(path: string, name: string): Problem[] {
  if (/^[A-Z0-9_]+$/.test(name) || standardNames.has(name)) return [];
  return wordsOf(name).flatMap((word) => {
    const standard = retired.get(word);
    return standard === undefined
      ? []
      : [{ path, message: `says "${word}" in ${name}: the standard words are ${standard}` }];
  });
}

/** Names of the language itself. */
const standardNames: ReadonlySet<string> = new Set(['allSettled', 'PromiseSettledResult']);

const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .split(/[^A-Za-z]+/)
    .map((word) => word.toLowerCase());
