/** Admins, settings, and service accounts as a view of API tokens (admin-panel-calls.md, section 2). */
import { expect } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { cors, flag, number, password, type Row, some, text, transports } from './row.ts';

const adminFields = { _id: text, username: text, createdAt: text, isSuperAdmin: flag };

export const core: readonly Row[] = [
  {
    call: 'GET /config/modules',
    reads: { modules: some({ moduleName: 'authentication', url: text, serving: true }) },
  },
  {
    call: 'GET /config/modules?sortByName=true',
    reads: { modules: some({ moduleName: 'router', url: text, serving: true }) },
  },
  { call: 'GET /config/core', reads: { config: { env: text } } },
  {
    call: 'PUT /config/core',
    body: { config: { env: 'development' } },
    reads: { config: { env: 'development' } },
  },
  {
    call: 'PATCH /config/core',
    body: { config: { env: 'development' } },
    reads: { config: { env: 'development' } },
  },
  {
    call: 'GET /config/admin',
    reads: {
      config: {
        auth: { tokenSecret: text, hashRounds: number, tokenExpirationTime: number },
        hostUrl: text,
        transports,
        cors,
      },
    },
  },
  { call: 'POST /admins', body: { username: 'panel', password } },
  {
    call: 'GET /admins?skip=0&limit=10',
    reads: { admins: some(adminFields), count: number },
    keep: ({ admins }) => ({
      adminId: admins.find(({ username }: Json) => username === 'panel')._id,
    }),
  },
  { call: 'GET /admins/me', reads: { ...adminFields, hasTwoFA: flag } },
  { call: 'PUT /admins/{adminId}/change-password', body: { newPassword: 'Panel-Password-78' } },
  { call: 'DELETE /admins/{adminId}' },
  {
    call: 'POST /authentication/services',
    body: { name: 'nightly' },
    reads: { name: 'nightly', token: expect.stringMatching(/^cdt_/) },
  },
  {
    call: 'GET /authentication/services',
    reads: { services: some({ _id: text, name: 'nightly', active: true, createdAt: text }) },
    keep: ({ services }) => ({ serviceId: services[0]._id }),
  },
  {
    call: 'GET /authentication/services/{serviceId}/token',
    reads: { name: 'nightly', token: expect.stringMatching(/^cdt_/) },
  },
  {
    call: 'GET /authentication/services',
    reads: { services: some({ name: 'nightly' }) },
    keep: ({ services }) => ({ serviceId: services[0]._id }),
  },
  { call: 'DELETE /authentication/services/{serviceId}' },
  { call: 'GET /authentication/services', reads: { services: [] } },
];
