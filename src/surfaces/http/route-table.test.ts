import createRouter, { type HTTPMethod } from 'find-my-way';
import Type from 'typebox';
import { expect, it } from 'vitest';
import { silentLog } from '../../../test/support/log.ts';
import { defineOperation, type Method, TextResult } from '../../kernel/operations/operation.ts';
import { createOperationRegistry } from '../../kernel/operations/registry.ts';
import { createRouteTable } from './route-table.ts';

const paramsOf = (path: string) =>
  Type.Object(
    Object.fromEntries([...path.matchAll(/:(\w+)/g)].map(([, name = '']) => [name, Type.String()])),
  );

const operation = (method: Method, path: string, aliases: readonly string[] = []) =>
  defineOperation({
    id: `${method} ${path}`,
    surface: 'client',
    method,
    path,
    aliases: aliases.map((alias) => ({ method, path: alias })),
    access: 'public',
    limit: 'standard',
    input: { params: paramsOf(path) },
    summary: 'A route of this test',
    output: TextResult,
    handler: () => 'x',
  });

const templates = [
  '/',
  '/ready',
  '/database/Post',
  '/database/Post/:id',
  '/database/Post/many',
  '/database/:schema/:id',
  '/database/:schema/count/all',
  '/database/function/:name',
  '/storage/*',
  '/storage/file/:id',
  '/:any',
  '/:any/deep/:id',
  '/names/with-dash/:id',
];

const addresses = [
  '/',
  '',
  '/ready',
  '/ready/',
  '/ready?x=/database/Post',
  '/ready#/a/b',
  '/Ready',
  '/database/Post',
  '/database/Post/',
  '/database/Post//',
  '//database/Post',
  '/database/Post/1?populate=a/b',
  '/database/Post/many',
  '/database/P%6Fst/1',
  '/d%61tabase/Post/a%2Fb%20c',
  '/database%2FPost',
  '/database/Other/1',
  '/database/Post/count/all',
  '/database/function/run',
  '/database',
  '/database/',
  '/storage/any/thing/below',
  '/storage/file/7',
  '/storage/file/7/more',
  '/other',
  '/other/deep/3',
  '/database/deep/3',
  '/names/with-dash/1',
  '/nothing/at/all',
  '/%zz',
  '/database/%zz',
  '/database/Post/%e0%a4',
  '/unknown/%zz',
  '/database/Post/1?x=%zz',
  'http://host.example/database/Post/1?x=1',
  'HTTP://host.example',
  '*',
];

it('finds what one router over all routes finds, literal segments before parameters', () => {
  const registry = createOperationRegistry();
  registry.replace(
    'test',
    templates.map((path) => operation('GET', path)),
  );
  const table = createRouteTable('client', registry, silentLog);
  const whole = createRouter({
    ignoreTrailingSlash: true,
    querystringParser: (text) => text,
    onBadUrl: () => undefined,
  });
  for (const path of templates) whole.on('GET', path, () => undefined, { template: path });
  for (const url of addresses) {
    const expected = whole.find('GET' as HTTPMethod, url) as unknown as {
      store: { template: string } | null;
      params: object;
      searchParams: unknown;
    } | null;
    const found = table.find('GET', url);
    const answer =
      typeof found === 'object'
        ? { template: found.route.template, params: { ...found.params }, query: found.query }
        : found;
    expect([url, answer]).toEqual(
      [
        url,
        expected?.store
          ? {
              template: expected.store.template,
              params: { ...expected.params },
              query: expected.searchParams,
            }
          : expected && 'malformed',
      ].map((one) => one ?? undefined),
    );
  }
});

it('follows the registry: routes come and go, others stay as they were made', () => {
  const registry = createOperationRegistry();
  const table = createRouteTable('client', registry, silentLog);
  const template = (method: string, url: string) => {
    const found = table.find(method, url);
    return typeof found === 'object' ? found.route.template : found;
  };
  expect(template('GET', '/database/Post/1')).toBeUndefined();
  registry.replace('records', [
    operation('GET', '/database/Post/:id', ['/posts/:id']),
    operation('PATCH', '/database/Post/:id'),
  ]);
  expect([template('GET', '/database/Post/1'), template('GET', '/posts/1')]).toEqual([
    '/database/Post/:id',
    '/posts/:id',
  ]);
  expect(table.allowed('/database/Post/1')).toEqual(['GET', 'HEAD', 'PATCH']);
  registry.replace('more', [operation('DELETE', '/database/Post/:id')]);
  expect(table.allowed('/database/Post/1')).toEqual(['GET', 'HEAD', 'PATCH', 'DELETE']);
  registry.replace('records', []);
  expect([template('GET', '/posts/1'), template('DELETE', '/database/Post/1')]).toEqual([
    undefined,
    '/database/Post/:id',
  ]);
  registry.transform((one) => ({ ...one, path: one.path.replace('Post', 'Note') }));
  expect([template('DELETE', '/database/Post/1'), template('DELETE', '/database/Note/1')]).toEqual([
    undefined,
    '/database/Note/:id',
  ]);
});

it('refuses what another owner answers, and keeps what was there', () => {
  const registry = createOperationRegistry();
  registry.replace('one', [operation('GET', '/notes/:id')]);
  expect(() =>
    registry.replace('two', [operation('GET', '/other'), operation('GET', '/notes/:name')]),
  ).toThrow('Two operations answer client GET /notes/:name');
  expect(registry.all().map(({ owner }) => owner)).toEqual(['one']);
  const twice = [operation('GET', '/other'), operation('GET', '/other')];
  expect(() => registry.replace('two', twice)).toThrow('Two operations answer the id GET /other');
  // What an owner gives up is free at once, for itself and for others.
  registry.replace('one', [operation('GET', '/notes/:key')]);
  registry.replace('one', []);
  registry.replace('two', [operation('GET', '/notes/:name')]);
  expect(registry.all().map(({ owner }) => owner)).toEqual(['two']);
});
