/** Asks the cases of public suites of a running platform over HTTP, one after the other, and clears up after each. */
import type { Api, Json } from '../../test/support/api.ts';
import type {
  Around,
  Outcome,
  PublicCase,
  PublicCheck,
  PublicList,
  PublicTuple,
  PublicWho,
} from './forms/public-case.ts';
import { builtInDefinitions, type CaseResult, clear, define, expectOk, patient } from './run.ts';

export interface PublicResult extends CaseResult {
  /** What could not be asked, and why. */
  readonly unmapped: readonly string[];
}

const batchSize = 50;

export async function runPublicCase(admin: Api, one: PublicCase): Promise<PublicResult> {
  const { id, unmapped } = one;
  if (one.resources.length === 0) return { id, asked: 0, failures: [], unmapped };
  const api = patient(admin);
  const before = await builtInDefinitions(api, one);
  try {
    const refused = await refusal(define(api, one));
    if (refused !== undefined)
      return { id, asked: 0, failures: [], unmapped: [...unmapped, refused] };
    for (const tuple of one.kept) await api.post('/authorization/relations', tuple);
    for (const tuple of one.tuples)
      await expectOk(api.post('/authorization/relations', tuple), JSON.stringify(tuple));
    const checks = await askChecks(api, one.checks);
    const lists = await inTurn(one.lists, (list) => askList(api, list));
    const whos = await inTurn(one.whos, (who) => askWho(api, who));
    const failures = [...checks, ...lists, ...whos];
    const asked = one.checks.length + one.lists.length + one.whos.length;
    return { id, asked, failures, unmapped };
  } catch (error) {
    return { id, asked: 0, failures: [messageOf(error)], unmapped };
  } finally {
    await clear(api, one, before);
  }
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** What the platform says against a model. */
const refusal = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => undefined,
    (error: unknown) => `the model: ${messageOf(error)}`,
  );

async function inTurn<T>(
  items: readonly T[],
  ask: (item: T) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const item of items) found.push(...(await ask(item)));
  return found;
}

const aroundOf = ({ context, contextualTuples }: Around) => ({
  ...(context && { context }),
  ...(contextualTuples && { contextualTuples: distinct(contextualTuples) }),
});

/** Twice the same is once. */
const distinct = (tuples: readonly PublicTuple[]): readonly PublicTuple[] => [
  ...new Map(tuples.map((tuple) => [JSON.stringify(tuple), tuple])).values(),
];

/** Questions under the same circumstances go together; those that must fail go alone. */
async function askChecks(api: Api, checks: readonly PublicCheck[]): Promise<readonly string[]> {
  const groups = Map.groupBy(checks, (check) =>
    check.expected === 'error' ? check : JSON.stringify(aroundOf(check)),
  );
  const failures: string[] = [];
  for (const group of groups.values())
    for (let from = 0; from < group.length; from += batchSize)
      failures.push(...(await askBatch(api, group.slice(from, from + batchSize))));
  return failures;
}

async function askBatch(api: Api, batch: readonly PublicCheck[]): Promise<readonly string[]> {
  const [first] = batch;
  const asked = batch.map(({ subject, permission, resource }) => ({
    subject,
    permission,
    resource,
  }));
  const body = { checks: asked, ...aroundOf(first ?? {}) };
  const answer = await api.post<Json>('/authorization/permissions/check', body);
  return batch.flatMap((check, i) => {
    const got: Outcome =
      answer.status === 200 ? outcomeOf(answer.body.results[i]) : answer.status < 500 && 'error';
    const fits = got === check.expected || (check.expected === 'error' && got === 'undecided');
    const { subject, permission, resource, expected } = check;
    const told = answer.status === 200 ? got : `${answer.status} ${answer.text.slice(0, 200)}`;
    const around = JSON.stringify(aroundOf(check));
    return fits
      ? []
      : [`check ${subject} ${permission} ${resource} ${around}: expected ${expected}, got ${told}`];
  });
}

const outcomeOf = ({ allowed, undecided }: Json): Outcome => (undecided ? 'undecided' : allowed);

const askList = (api: Api, { subject, permission, type, expected, ...around }: PublicList) =>
  askPages(api, {
    path: '/authorization/permissions/resources',
    question: { subject, permission, resourceType: type, ...aroundOf(around) },
    key: 'resources',
    expected,
  });

const askWho = (api: Api, { resource, permission, subjectType, expected, ...around }: PublicWho) =>
  askPages(api, {
    path: '/authorization/permissions/subjects',
    question: { resource, permission, subjectType, ...aroundOf(around) },
    key: 'subjects',
    expected,
  });

interface Pages {
  readonly path: string;
  readonly question: object;
  readonly key: 'resources' | 'subjects';
  readonly expected: readonly string[] | 'error';
}

async function askPages(
  api: Api,
  { path, question, key, expected }: Pages,
): Promise<readonly string[]> {
  const found: string[] = [];
  let cursor: string | undefined;
  let incomplete = false;
  const told = (got: string): readonly string[] => {
    const right = expected === 'error' ? expected : [...expected].sort().join();
    return [`${key} ${JSON.stringify(question)}: expected ${right}, got ${got}`];
  };
  do {
    const body = { ...question, ...(cursor === undefined ? {} : { cursor }) };
    const answer = await api.post<Json>(path, body);
    if (answer.status !== 200)
      return expected === 'error' && answer.status < 500
        ? []
        : told(`${answer.status} ${answer.text.slice(0, 200)}`);
    found.push(...answer.body[key]);
    incomplete ||= answer.body.incomplete === true;
    cursor = answer.body.cursor;
  } while (cursor !== undefined);
  const got = [...found].sort().join();
  if (expected === 'error') return incomplete ? [] : told(got);
  return got === [...expected].sort().join() ? [] : told(got);
}
