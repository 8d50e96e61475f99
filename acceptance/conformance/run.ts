/** Asks the relationship cases of a running platform over HTTP, one after the other, and clears up after each. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer, Api, Json } from '../../test/support/api.ts';
import {
  type CaseCheck,
  type CaseList,
  type CaseWho,
  listNeedsSelfRelation,
  needsSelfRelation,
  type RelationshipCase,
} from './cases.ts';

export interface CaseResult {
  readonly id: string;
  /** Checks and lists that were asked. */
  readonly asked: number;
  readonly failures: readonly string[];
}

/** Definitions that the platform brings: they are changed and changed back, never deleted. */
const builtIn: ReadonlySet<string> = new Set(['User', 'Team', 'Role']);
const batchSize = 50;

export async function runCase(admin: Api, one: RelationshipCase): Promise<CaseResult> {
  const api = patient(admin);
  const before = await builtInDefinitions(api, one);
  try {
    await define(api, one);
    for (const relation of one.relations)
      await expectOk(api.post('/authorization/relations', relation), JSON.stringify(relation));
    const checks = await askChecks(api, one);
    const lists = await Promise.all(
      one.lists
        .filter((list) => !listNeedsSelfRelation(one, list))
        .map((list) => askList(api, list)),
    );
    const whos = await Promise.all((one.who ?? []).map((who) => askWho(api, who)));
    return {
      id: one.id,
      asked: checks.asked + lists.length + whos.length,
      failures: [...checks.failures, ...lists.flat(), ...whos.flat()],
    };
  } catch (error) {
    return {
      id: one.id,
      asked: 0,
      failures: [error instanceof Error ? error.message : String(error)],
    };
  } finally {
    await clear(api, one, before);
  }
}

/** Types may need each other, so all names come first, and what they mean after it. */
export async function define(
  api: Api,
  { resources }: Pick<RelationshipCase, 'resources'>,
): Promise<void> {
  for (const { name, relations, permissions } of resources) {
    const shell = { relations: emptied(relations), permissions: emptied(permissions) };
    if (builtIn.has(name)) await change(api, name, shell);
    else await expectOk(api.post('/authorization/resources', { name, ...shell }), `define ${name}`);
  }
  // What has no more than a name is whole by now, as is after it what has no permissions.
  for (const { name, relations, conditions = {} } of resources.filter(saysMore)) {
    const permissions = emptied(permissionsOf(resources, name));
    await change(api, name, { relations, permissions, conditions });
  }
  for (const { name, relations, permissions, conditions = {} } of resources.filter(hasPermissions))
    await change(api, name, { relations, permissions, conditions });
}

type Defined = RelationshipCase['resources'][number];

const hasPermissions = ({ permissions }: Defined): boolean => Object.keys(permissions).length > 0;
const saysMore = ({ relations, permissions, conditions = {} }: Defined): boolean =>
  Object.keys({ ...relations, ...permissions, ...conditions }).length > 0;

const emptied = (map: Readonly<Record<string, unknown>>): Record<string, readonly never[]> =>
  Object.fromEntries(Object.keys(map).map((name) => [name, []]));

const permissionsOf = (resources: RelationshipCase['resources'], name: string) =>
  resources.find((resource) => resource.name === name)?.permissions ?? {};

const change = (api: Api, name: string, content: object): Promise<Json> =>
  expectOk(
    api.patch(`/authorization/resources/${name}`, content, { query: { force: true } }),
    `change ${name}`,
  );

async function askChecks(
  api: Api,
  one: RelationshipCase,
): Promise<{ readonly asked: number; readonly failures: readonly string[] }> {
  const all = one.checks.filter((check) => !needsSelfRelation(check));
  const checks = all.filter(({ context }) => context === undefined);
  const failures = await askWithContext(api, all);
  for (let from = 0; from < checks.length; from += batchSize) {
    const batch = checks.slice(from, from + batchSize);
    const asked = batch.map(({ subject, permission, resource }) => ({
      subject,
      permission,
      resource,
    }));
    const { results } = await expectOk(
      api.post('/authorization/permissions/check', { checks: asked }),
      'check',
    );
    batch.forEach(({ subject, permission, resource, allowed }, i) => {
      if (results[i]?.allowed !== allowed)
        failures.push(`${subject} ${permission} ${resource}: expected ${allowed}`);
    });
  }
  return { asked: all.length, failures };
}

/** Each on its own: the context is that of a request. */
async function askWithContext(api: Api, checks: readonly CaseCheck[]): Promise<string[]> {
  const failures: string[] = [];
  for (const { subject, permission, resource, allowed, context } of checks) {
    if (context === undefined) continue;
    const body = { subject, permission, resource, context };
    const answer = await expectOk(api.post('/authorization/permissions/can', body), 'can');
    if (answer.allowed !== allowed) failures.push(`${JSON.stringify(body)}: expected ${allowed}`);
  }
  return failures;
}

async function askList(
  api: Api,
  { subject, permission, type, resources, context }: CaseList,
): Promise<readonly string[]> {
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const question = {
      subject,
      permission,
      resourceType: type,
      ...(cursor === undefined ? {} : { cursor }),
    };
    const path = '/authorization/permissions/resources';
    const asked =
      context === undefined
        ? api.get(path, { query: question })
        : api.post(path, { ...question, context });
    const page = await expectOk(asked, 'list');
    found.push(...page.resources);
    cursor = page.cursor;
  } while (cursor !== undefined);
  const same =
    found.length === resources.length && resources.every((resource) => found.includes(resource));
  return same
    ? []
    : [
        `${subject} ${permission} ${type}: expected ${[...resources].sort().join()}, got ${found.sort().join()}`,
      ];
}

async function askWho(
  api: Api,
  { resource, permission, subjectType, subjects, context = {} }: CaseWho,
): Promise<readonly string[]> {
  const body = { resource, permission, subjectType, context };
  const page = await expectOk(api.post('/authorization/permissions/subjects', body), 'who');
  const found = [...page.subjects].sort().join();
  const right = [...subjects].sort().join();
  return found === right ? [] : [`who ${JSON.stringify(body)}: expected ${right}, got ${found}`];
}

export async function builtInDefinitions(
  api: Api,
  { resources }: Pick<RelationshipCase, 'resources'>,
): Promise<readonly Json[]> {
  const names = resources.map(({ name }) => name).filter((name) => builtIn.has(name));
  return Promise.all(
    names.map((name) => expectOk(api.get(`/authorization/resources/${name}`), name)),
  );
}

export async function clear(
  api: Api,
  { resources }: Pick<RelationshipCase, 'resources'>,
  before: readonly Json[],
): Promise<void> {
  for (const { name } of resources) {
    if (!builtIn.has(name))
      await api.delete(`/authorization/resources/${name}`, { query: { force: true } });
  }
  for (const { name, relations, permissions } of before)
    await change(api, name, { relations, permissions });
}

export async function expectOk(answer: Promise<Answer<Json>>, what: string): Promise<Json> {
  const { status, body, text } = await answer;
  if (status !== 200) throw new Error(`${what}: ${status} ${text.slice(0, 300)}`);
  return body;
}

/** The same address, for somebody who waits when they are told to. */
export function patient(api: Api): Api {
  const send: Api['send'] = async (method, path, body, options) => {
    for (;;) {
      const answer = await api.send<never>(method, path, body, options);
      if (answer.status !== 429) return answer;
      await sleep(Number(answer.headers.get('retry-after') ?? 1) * 1000);
    }
  };
  return {
    ...api,
    send,
    get: (path, options) => send('GET', path, undefined, options),
    post: (path, body, options) => send('POST', path, body, options),
    patch: (path, body, options) => send('PATCH', path, body, options),
    put: (path, body, options) => send('PUT', path, body, options),
    delete: (path, options) => send('DELETE', path, undefined, options),
  };
}
