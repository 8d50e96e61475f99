/** Packages that the operator installed, bundled into functions that ask for them. CWE-22: nothing else is. */
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { projectRoot } from '../../test/support/spawn.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
let modules: string;
const files: Readonly<Record<string, string>> = {
  'plain/package.json': '{"name": "plain", "main": "lib.js"}',
  'plain/lib.js': `const helper = require('helper');
    module.exports = { double: (n) => helper.times(n, 2), env: process.env.NODE_ENV,
      read: () => require('fs').readFileSync('/etc/passwd') };`,
  'helper/package.json': '{"name": "helper"}',
  'helper/index.js': `exports.times = (a, b) => a * b;
exports.fail = () => {
  throw new Error('inside the package');
};`,
  '@scope/modern/package.json':
    '{"name": "@scope/modern", "type": "module", "exports": {".": "./main.js", "./deep": "./deep.js"}}',
  '@scope/modern/main.js': `import { times } from 'helper';
    export const triple = (n) => times(n, 3);
    export default function hello(name) { return 'hello ' + name; }`,
  '@scope/modern/deep.js': 'export const depth = 7;',
  'large/package.json': '{"name": "large"}',
  'large/index.js': `module.exports = ${JSON.stringify('x'.repeat(20_000))};`,
  'broken/package.json': '{"name": "broken"}',
  'broken/index.js': 'module.exports = {{;',
};
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  modules = join(platform.dataDir, 'functions/node_modules');
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await writeFile(join(modules, name), text);
  }
  await cp(join(projectRoot, 'node_modules/lru-cache'), join(modules, 'lru-cache'), {
    recursive: true,
    dereference: true,
  });
});
afterAll(() => platform.close());

const refusal = async (functionCode: string) => {
  const answer = await platform.admin.post('/functions/upload', {
    ...{ name: 'refused', functionType: 'request', inputs: { method: 'GET' }, functionCode },
  });
  expect(answer, answer.text).toMatchObject({ status: 400 });
  return answer.body.errors[0] as { readonly path: string; readonly message: string };
};
const call = async (name: string, functionCode: string) => {
  await upload(platform.admin, { name, functionCode });
  return (await platform.client.get(`/functions/${name}`)).body.result;
};

it('a body requires them, and what they build on', async () => {
  const code = `const { double, env } = require('plain');
    return [double(21), env, require('helper').times(2, 2)];`;
  expect(await call('body', code)).toEqual([42, 'production', 4]);
});

it('a module imports them: default, names, subpaths, everything', async () => {
  const code = `import hello, { triple } from '@scope/modern';
    import * as deep from '@scope/modern/deep';
    import { times as multiply } from 'helper';
    import { LRUCache } from 'lru-cache';
    export default () => {
      const cache = new LRUCache({ max: 2 });
      cache.set('a', 1);
      return [hello('you'), triple(2), deep.depth, multiply(3, 4), cache.get('a')];
    };`;
  expect(await call('module', code)).toEqual(['hello you', 6, 7, 12, 1]);
});

it('lodash is there for existing functions, as long as the operator installs no other one', async () => {
  const body = `const _ = require('lodash');
    return [_.chunk([1, 2, 3], 2), require('lodash/camelCase')('a b')];`;
  expect(await call('lodash_body', body)).toEqual([[[1, 2], [3]], 'aB']);
  const code = `import _, { groupBy } from 'lodash';
    export default () => [_.VERSION, groupBy([1, 2, 3], (n) => n % 2)];`;
  expect(await call('lodash_module', code)).toEqual([
    expect.stringMatching(/^4\./),
    { 0: [2], 1: [1, 3] },
  ]);
  expect((await refusal(`require('lodash/../fs')`)).message).toContain('no name of a package');
  expect((await refusal(`require('lodash/nothing')`)).message).toContain('not installed');
  await mkdir(join(modules, 'lodash'));
  await writeFile(join(modules, 'lodash/index.js'), 'exports.mine = true;');
  expect(await call('lodash_own', `return require('lodash').mine;`)).toBe(true);
});

it('types are taken away beside packages, and errors keep their place in the source', async () => {
  const functionCode = `import { fail } from 'helper';
    export default (ctx: { readonly requestId: string }): never => {
      const name: string = ctx.requestId;
      return fail(name);
    };`;
  const { _id } = await upload(platform.admin, { name: 'typed', functionCode });
  const { body } = await platform.admin.post(`/functions/${_id}/invoke`, {});
  expect(body.error).toMatchObject({ message: 'inside the package', line: 4, column: 14 });
  expect(body.error.stack).toContain('package:helper');
});

it('what is installed later changes no stored function', async () => {
  const code = "return require('helper').times(2, 5);";
  expect(await call('kept', code)).toBe(10);
  await writeFile(join(modules, 'helper/index.js'), 'exports.times = () => -1;');
  const { functions } = (await platform.admin.get('/functions', { query: { search: 'kept' } }))
    .body;
  await platform.admin.patch(`/functions/${functions[0]._id}`, { timeout: 5_000 });
  expect((await platform.client.get('/functions/kept')).body.result).toBe(-1);
  await platform.admin.post(`/functions/${functions[0]._id}/rollback`, { version: 1 });
  const before = await platform.admin.post(`/functions/${functions[0]._id}/invoke`, { version: 1 });
  expect(before.body.result).toBe(10);
  await writeFile(join(modules, 'helper/index.js'), files['helper/index.js'] ?? '');
});

it('what only Node has says so when it is used', async () => {
  const code = `try { return require('plain').read(); } catch (error) { return error.message; }`;
  expect(await call('node_only', code)).toContain('Functions have no node:fs');
});

it('what is not there, not in the folder or no package is refused, and named', async () => {
  await writeFile(join(platform.dataDir, 'outside.js'), 'module.exports = 1;');
  await mkdir(join(platform.dataDir, 'elsewhere'), { recursive: true });
  await writeFile(join(platform.dataDir, 'elsewhere/index.js'), 'module.exports = 2;');
  await symlink(join(platform.dataDir, 'elsewhere'), join(modules, 'linked'));
  const cases: readonly (readonly [string, string])[] = [
    ["return require('missing')", 'missing is not installed'],
    ["return require('../outside.js')", '../outside.js is no package'],
    ["return require('plain/../../../outside.js')", 'is no name of a package'],
    ["return require('/etc/passwd')", '/etc/passwd is no package'],
    ["return require('linked')", 'not in the folder for packages'],
    ["return require('broken')", 'broken cannot be bundled'],
    [
      "import { nothing } from '@scope/modern'; export default () => nothing;",
      'exports no nothing',
    ],
    ["import fs from 'node:fs'; export default () => fs;", 'functions do not have'],
  ];
  for (const [code, told] of cases) {
    const { path, message } = await refusal(code);
    expect({ code, path }).toEqual({ code, path: 'functionCode' });
    expect(message).toContain(told);
    expect(message).not.toContain(platform.dataDir);
  }
});

it('packages that are too large are refused', async () => {
  const limits = (maxPackageBytes: number) =>
    platform.admin.patch('/config/functions', { config: { limits: { maxPackageBytes } } });
  await limits(10_000);
  expect((await refusal("return require('large').length")).message).toContain('10000 are allowed');
  await limits(4_194_304);
  expect(await call('large', "return require('large').length")).toBe(20_000);
});

it.each([
  ['a long chain of operators', `0${'+1'.repeat(200_000)}`],
  ['a long chain of members', `a${'.b'.repeat(200_000)}`],
])('%s beside an import is taken or refused, and the platform goes on', async (_name, chain) => {
  const answer = await platform.admin.post('/functions/upload', {
    name: 'chained',
    functionType: 'request',
    inputs: { method: 'GET' },
    functionCode: `import plain from 'plain';\nexport default (a) => plain && ${chain};`,
  });
  expect([200, 400]).toContain(answer.status);
  expect((await platform.admin.get('/functions')).status).toBe(200);
});
