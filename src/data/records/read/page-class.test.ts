/** Which lists share connections: those that look at few rows, whatever there is. */
import { expect, it } from 'vitest';
import type { FirstWay, ReachedRows, RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Page } from '../page/page.ts';
import { classOfList } from './page-class.ts';
import { noPopulate, type PopulateTree } from './projection.ts';
import { classOf } from './record-view.ts';

const schema = { rows: 'app."Note"', table: 'app."Note"' } as CompiledSchema;
const page = { among: { count: 20, order: undefined } } as Page;
const predicate: RowPredicate = { shape: 'own', compile: () => 'true' };
const view = { predicate, populate: noPopulate, conditions: undefined };
const way = (isBounded: boolean): FirstWay => ({ key: 'walk', isBounded, compile: () => '' });
const rows = (isBounded: boolean): ReachedRows => ({ isBounded, compile: () => '' });
const deep: PopulateTree = new Map([['notes', { many: true }]]) as unknown as PopulateTree;

it('shares them where few rows are found, for a page and its number', () => {
  const classFor = (isBounded: boolean, shown = view): string =>
    classOfList(schema, { page, mode: 'exact', reached: rows(isBounded) }, shown);
  expect(classFor(true)).toBe('list');
  expect(classFor(false)).toBe('pooled');
  expect(classFor(true, { ...view, populate: deep })).toBe('pooled');
  const large = { among: { ...page.among, count: 1_000 } } as Page;
  const request = { page: large, mode: 'exact', reached: rows(true) } as const;
  expect(classOfList(schema, request, view)).toBe('pooled');
});

it('shares them where a window along the order is looked at, and nothing is counted', () => {
  const classFor = (isBounded: boolean, mode: 'none' | 'exact' = 'none', of = schema): string =>
    classOfList(of, { page, mode, first: way(isBounded) }, view);
  expect(classFor(true)).toBe('list');
  expect(classFor(false)).toBe('pooled');
  expect(classFor(true, 'exact')).toBe('pooled');
  // Rows in the trash may be any number.
  expect(classFor(true, 'none', { ...schema, rows: '(select ...)' })).toBe('pooled');
});

it('is short for one record where its rights are a few searches, and a few others are brought in', () => {
  const light = { ...predicate, isLight: true };
  expect(classOf({ ...view, predicate: undefined })).toBe('short');
  expect(classOf({ ...view, predicate: light })).toBe('short');
  expect(classOf(view)).toBe('pooled');
  expect(classOf({ ...view, predicate: { ...predicate, isLight: false } })).toBe('pooled');
  expect(classOf({ ...view, predicate: light, populate: deep })).toBe('pooled');
  const linked = (more: object): PopulateTree => {
    const link = { many: false, children: noPopulate, target: {}, ...more };
    return new Map([['author', link]]) as unknown as PopulateTree;
  };
  expect(classOf({ ...view, predicate: light, populate: linked({}) })).toBe('short');
  expect(classOf({ ...view, predicate: light, populate: linked({ predicate }) })).toBe('pooled');
  const restricted = linked({ predicate: light });
  expect(classOf({ ...view, predicate: undefined, populate: restricted })).toBe('short');
  const shown = { ...view, predicate: undefined, populate: restricted };
  expect(classOfList(schema, { page, mode: 'none' }, shown)).toBe('list');
});

it('is short where nobody has to be asked', () => {
  const plain = { ...view, predicate: undefined };
  expect(classOfList(schema, { page, mode: 'none' }, plain)).toBe('short');
  expect(classOfList(schema, { page, mode: 'exact' }, plain)).toBe('pooled');
  expect(classOfList(schema, { page, mode: 'none' }, view)).toBe('pooled');
});
