/**
 * Every code block of the guides: calls name operations that exist, with parameters and fields that these know;
 * configurations are taken without a warning; programs, queries and documents can be read. Blocks of the guides in
 * `programs` are run besides, as they stand there, by the test that is named.
 */
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse as parseGraphql } from 'graphql';
import { parseSync } from 'oxc-parser';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { PenstockError } from '../../src/kernel/errors.ts';
import { compileOperation } from '../../src/kernel/operations/compile.ts';
import type { Operation } from '../../src/kernel/operations/operation.ts';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../src/platform.ts';
import type { TestDatabase } from '../../test/support/database.ts';
import {
  createTestNode,
  type TestNode,
  testAdminPassword,
  testMasterKey,
} from '../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { projectRoot } from '../routes.ts';
import { switchOn } from '../switched-on.ts';

/** Where the blocks of a guide are run. */
const programs: Readonly<Record<string, string>> = {
  'browser-clients': 'acceptance/guides/guides.test.ts',
  'permissions-by-example': 'acceptance/guides/guides.test.ts',
  'coming-from-pocketbase': 'acceptance/guides/guides.test.ts',
  'coming-from-supabase': 'acceptance/guides/guides.test.ts',
  'coming-from-firebase': 'acceptance/guides/guides.test.ts',
  graphql: 'acceptance/graphql.test.ts',
  'getting-started': 'acceptance/first-app.test.ts',
  pagination: 'acceptance/guides/filtering.test.ts',
  realtime: 'acceptance/realtime/guide.test.ts',
  chat: 'acceptance/chat/guide.test.ts',
  'openid-provider': 'acceptance/authentication/openid-guide.test.ts',
  webhooks: 'acceptance/webhooks/guide.test.ts',
  functions: 'acceptance/functions/guide.test.ts',
  'function-triggers': 'acceptance/functions/triggers-guide.test.ts',
  'typed-clients': 'acceptance/generated-clients/typescript.test.ts',
};

const guideFiles = '{README.md,docs/{guides,operations}/*.md}';

interface Block {
  readonly guide: string;
  readonly kind: string;
  readonly code: string;
  readonly line: number;
}

/** A call as a guide shows it. */
interface ShownCall {
  readonly where: string;
  readonly method: string;
  readonly path: string;
  /** Undefined where the guide leaves out parts of it. */
  readonly body: unknown;
}

let database: TestDatabase;
let dataDir: string;
let platform: Platform;
let node: TestNode;
let blocks: readonly Block[];
let operations: readonly Operation[];

beforeAll(async () => {
  database = await platformDatabase('embedded');
  dataDir = await temporaryFolder('data');
  platform = await startPlatform({
    settings: readSettings(testEnvironment(dataDir, database.url)),
  });
  const credentials = { masterKey: testMasterKey, adminPassword: testAdminPassword };
  node = createTestNode(platform.addresses, credentials);
  await switchOn(node.admin);
  operations = platform.kernel.operations.all().map(({ operation }) => operation);
  blocks = await readBlocks();
});
afterAll(async () => {
  await platform?.close();
  await database?.drop();
  await removeFolder(dataDir);
});

async function readBlocks(): Promise<readonly Block[]> {
  const found: Block[] = [];
  for await (const file of glob(guideFiles, { cwd: projectRoot })) {
    const text = await readFile(join(projectRoot, file), 'utf8');
    const guide = file.replace(/^.*\/|\.md$/g, '');
    for (const match of text.matchAll(/^```([a-z]+)[^\n]*\n([\s\S]*?)^```$/gm)) {
      const [, kind = '', code = ''] = match;
      const line = text.slice(0, match.index).split('\n').length + 1;
      found.push({ guide, kind, code, line });
    }
  }
  return found;
}

/** Places of blocks that do not say what they are, which nothing would look at. */
async function unnamedBlocks(): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const file of glob(guideFiles, { cwd: projectRoot })) {
    const lines = (await readFile(join(projectRoot, file), 'utf8')).split('\n');
    const fences = lines.flatMap((line, at) => (line.startsWith('```') ? [{ line, at }] : []));
    for (const [i, { line, at }] of fences.entries())
      if (i % 2 === 0 && line === '```') found.push(`${file}:${at + 1}`);
  }
  return found;
}

const ofKind = (...kinds: readonly string[]): readonly Block[] =>
  blocks.filter(({ kind }) => kinds.includes(kind));
const placeOf = ({ guide, line }: Block): string => `${guide}.md:${line}`;

/** `undefined` for what is no JSON, as where parts are left out. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A method and a path begin a call; what follows is its body, up to an empty line or an answer. */
function httpCalls(block: Block): readonly ShownCall[] {
  const starts = [
    ...block.code.matchAll(/^(GET|POST|PUT|PATCH|DELETE) +(\/(?:<[^>\n]*>|\S)*)(.*)$/gm),
  ];
  return starts.map((match, i) => {
    const [line, method = '', path = '', rest = ''] = match;
    const end = starts[i + 1]?.index ?? block.code.length;
    const below = block.code.slice(match.index + line.length, end).split(/\n\n|\n->/)[0] ?? '';
    const text = `${rest}${below}`.replace(/^[\w-]+: [^\n]*$/gm, '').trim();
    return { where: placeOf(block), method, path, body: jsonOf(text) };
  });
}

/** Calls of `curl`, to the addresses that guides use. */
function curlCalls(block: Block): readonly ShownCall[] {
  const commands = block.code.split(/(?=\bcurl )/).filter((text) => text.startsWith('curl '));
  return commands.flatMap((text) => {
    const address =
      /(?:(?:localhost|127\.0\.0\.1):(?:3000|3030)|\$APP|\$PENSTOCK_URL)(\/[^\s'"]*)/.exec(text);
    if (!address?.[1]) return [];
    const sends = / (?:-d|-F|--data-binary|--json) /.test(text);
    const method = / -X (\w+)/.exec(text)?.[1] ?? (sends ? 'POST' : 'GET');
    const body = jsonOf(/ (?:-d|--json) '([^']*)'/.exec(text)?.[1] ?? '');
    return [{ where: placeOf(block), method, path: address[1], body }];
  });
}

const calls = (): readonly ShownCall[] => [
  ...ofKind('http').flatMap(httpCalls),
  ...ofKind('sh', 'bash').flatMap(curlCalls),
];

/** Operations of a path with values, words in capitals or angle brackets in the place of parameters. */
function operationsOf({ method, path }: ShownCall): readonly Operation[] {
  const given = (path.split('?')[0] ?? '').split('/');
  return operations.filter((operation) => {
    const parts = operation.path.split('/');
    return (
      operation.method === method &&
      parts.length === given.length &&
      parts.every((part, i) => part.startsWith(':') || part === given[i])
    );
  });
}

/** Routes of schemas, endpoints and functions that the guide has told the reader to make. */
const isMade = ({ path }: ShownCall): boolean =>
  /^\/(?:database\/(?:[A-Z]|function\/)|functions\/[a-z]\w*(?:\?|$))/.test(path);

/** What an operation says of names: those that it does not know, and those that it misses. */
function namesWrong(operation: Operation, { path, body }: ShownCall): readonly string[] {
  const params = Object.fromEntries(
    [...operation.path.matchAll(/:(\w+)/g)].map(([, name = '']) => [name, 'x']),
  );
  const query = path.split('?')[1]?.replaceAll('...', 'x').replaceAll('<', '').split('>')[0] ?? '';
  try {
    compileOperation(operation).decode({ params, query, headers: {}, body }, 'all');
    return [];
  } catch (error) {
    if (!(error instanceof PenstockError)) throw error;
    return (error.errors ?? [])
      .filter(({ rule }) => rule === 'unknown' || (rule === 'required' && body !== undefined))
      .map((problem) => `${problem.path} ${problem.message}`);
  }
}

describe('code blocks of guides', () => {
  it('call operations that exist, by names that these know', () => {
    const all = calls();
    expect(all.length).toBeGreaterThan(100);
    const wrong = all.flatMap((call) => {
      const found = operationsOf(call);
      if (found.length === 0)
        return isMade(call) ? [] : [`${call.where}: there is no ${call.method} ${call.path}`];
      const problems = found.map((operation) => namesWrong(operation, call));
      return problems.some((one) => one.length === 0)
        ? []
        : [`${call.where}: ${call.method} ${call.path}: ${problems[0]?.join('; ')}`];
    });
    expect(wrong).toEqual([]);
  });

  it('configure what there is to configure', async () => {
    const configured = calls().filter(
      ({ method, path, body }) => method === 'PATCH' && /^\/config\/\w+$/.test(path) && body,
    );
    expect(configured.length).toBeGreaterThan(10);
    for (const { where, path, body } of configured) {
      const answer = await node.admin.patch(path, body);
      const unknown = (answer.body.errors ?? []).filter(({ rule }: { rule: string }) =>
        ['unknown', 'type'].includes(rule),
      );
      expect([where, answer.body.warnings ?? [], unknown]).toEqual([where, [], []]);
    }
  });

  it('are programs and queries that can be read', () => {
    for (const block of ofKind('js', 'ts')) {
      // A module, or the body of a function.
      const problems = [block.code, `async () => {${block.code}}`].map((text) =>
        parseSync(`block.${block.kind}`, text).errors.map(({ message }) => message),
      );
      if (problems.every(({ length }) => length > 0))
        expect([placeOf(block), problems]).toBe('read');
    }
    for (const block of ofKind('graphql')) expect(() => parseGraphql(block.code)).not.toThrow();
  });

  it('are documents that can be read', () => {
    for (const block of ofKind('yaml')) {
      const errors = parseAllDocuments(block.code).flatMap((one) => one.errors ?? []);
      expect([placeOf(block), errors]).toEqual([placeOf(block), []]);
    }
    const whole = ofKind('json').filter(({ code }) => !/\.\.\.|…/.test(code));
    const unread = whole.filter(
      ({ code }) => jsonOf(code.startsWith('"') ? `{${code}}` : code) === undefined,
    );
    expect(unread.map(placeOf)).toEqual([]);
  });

  it('are of kinds that some test looks at', async () => {
    expect(await unnamedBlocks()).toEqual([]);
    const checked = ['http', 'sh', 'bash', 'js', 'ts', 'graphql', 'yaml', 'json'];
    // Pictures; the page of forms.test.ts; proxies and the unit of deployment.test.ts; output of programs.
    const others = ['mermaid', 'html', 'nginx', 'caddy', 'ini', 'text'];
    const kinds = new Set(blocks.map(({ kind }) => kind));
    expect([...kinds].filter((kind) => ![...checked, ...others].includes(kind))).toEqual([]);
  });

  it.each(Object.entries(programs))('of %s are run by %s', async (guide, file) => {
    const test = await readFile(join(projectRoot, file), 'utf8');
    expect(test).toContain(guide.replace(/^coming-from-\w+$/, 'coming-from-'));
    expect(blocks.some((block) => block.guide === guide)).toBe(true);
  });
});
