/** What is measured: the same request to both programs, in the words of each. */
import { endpointName, readSchema, sharedSchema, writeSchema } from './dataset.ts';
import type { RequestShape } from './load.ts';

export interface Workload {
  readonly name: string;
  readonly title: string;
  /** The least ratio of ours to bare that we accept. */
  readonly goal: number;
  /** The most that the 99th percentile of the latency may be, in times that of bare. */
  readonly p99Goal?: number;
  readonly ours: RequestShape;
  readonly bare: RequestShape;
  /** Neither program is sent a credential. */
  readonly anonymous?: true;
  /** Each call makes or changes something, so that two answers differ in ids, instants and versions. */
  readonly writes?: true;
}

/** Rows of a page. */
export const PAGE_SIZE = 20;
const page = `skip=0&limit=${PAGE_SIZE}`;

/** Scalars and one relation, as an app asks for a page of cards. */
export const listDocument = `{ getDatabase${readSchema}(skip: 0, limit: ${PAGE_SIZE}, count: "none") { documents { _id title rank published author { _id name } } } }`;

export const oneDocument = `query ($id: ID!) { getDatabase${readSchema}Id(id: $id) { _id title rank published } }`;

const oneArticle: RequestShape = {
  method: 'POST',
  path: '/graphql',
  body: { query: oneDocument, variables: { id: '{id}' } },
};
const articles: RequestShape = { method: 'POST', path: '/graphql', body: { query: listDocument } };

export const workloads: readonly Workload[] = [
  {
    name: 'hello',
    title: 'a fixed answer, no credential',
    goal: 0.7,
    ours: { method: 'GET', path: '/live' },
    bare: { method: 'GET', path: '/live' },
    anonymous: true,
  },
  {
    name: 'get',
    title: 'read by id',
    goal: 0.8,
    ours: { method: 'GET', path: `/database/${readSchema}/{id}` },
    bare: { method: 'GET', path: '/records/{id}' },
  },
  {
    name: 'list',
    title: 'list of 20 with exact count',
    goal: 0.6,
    p99Goal: 1.3,
    ours: { method: 'GET', path: `/database/${readSchema}?${page}` },
    bare: { method: 'GET', path: `/records?${page}` },
  },
  {
    name: 'populate',
    title: 'list of 20 with one relation, no count',
    goal: 0.5,
    p99Goal: 1.3,
    ours: { method: 'GET', path: `/database/${readSchema}?${page}&count=none&populate=author` },
    bare: { method: 'GET', path: `/records-with-author?${page}` },
  },
  {
    name: 'endpoint',
    title: 'custom endpoint, one equality filter, 20 of 100 with exact count',
    goal: 0.6,
    p99Goal: 1.3,
    ours: { method: 'GET', path: `/database/function/${endpointName}?${page}&author={author}` },
    bare: { method: 'GET', path: `/records-of?${page}&author={author}` },
  },
  {
    name: 'authorised',
    title: 'row-authorised list of 20 with exact count',
    goal: 0.6,
    p99Goal: 1.3,
    ours: { method: 'GET', path: `/database/${sharedSchema}?${page}` },
    bare: { method: 'GET', path: `/shared?${page}&user={user}` },
  },
  {
    name: 'authorised-get',
    title: 'row-authorised read by id',
    goal: 0.6,
    ours: { method: 'GET', path: `/database/${sharedSchema}/{own}` },
    bare: { method: 'GET', path: '/shared/{own}?user={user}' },
  },
  {
    name: 'check',
    title: 'authorization check',
    goal: 0.15,
    p99Goal: 1.3,
    ours: {
      method: 'GET',
      path: `/authorization/check?action=read&resource=${sharedSchema}:{shared}`,
    },
    bare: { method: 'GET', path: '/check?record={shared}&user={user}' },
  },
  {
    name: 'graphql-get',
    title: 'GraphQL, read by id',
    goal: 0.75,
    ours: oneArticle,
    bare: oneArticle,
  },
  {
    name: 'graphql',
    title: 'GraphQL list of 20 with one relation',
    goal: 0.45,
    ours: articles,
    bare: articles,
  },
  {
    name: 'create',
    title: 'create',
    goal: 0.75,
    ours: { method: 'POST', path: `/database/${writeSchema}`, body: 'draft' },
    bare: { method: 'POST', path: '/drafts', body: 'draft' },
    writes: true,
  },
  {
    name: 'patch',
    title: 'change two fields',
    goal: 0.75,
    ours: { method: 'PATCH', path: `/database/${readSchema}/{id}`, body: 'change' },
    bare: { method: 'PATCH', path: '/records/{id}', body: 'change' },
    writes: true,
  },
  {
    name: 'authorised-patch',
    title: 'row-authorised change of two fields',
    goal: 0.6,
    ours: { method: 'PATCH', path: `/database/${sharedSchema}/{own}`, body: 'change' },
    bare: { method: 'PATCH', path: '/shared/{own}?user={user}', body: 'change' },
    writes: true,
  },
];
