/** Apps, routes and the settings of the client surface (section 7). */
import { expect } from 'vitest';
import { cors, flag, object, type Row, some, text, transports } from './row.ts';

export const router: readonly Row[] = [
  {
    call: 'POST /router/security/client',
    body: { platform: 'WEB', domain: '*.example.com', alias: 'panel', notes: 'web' },
    reads: { _id: text, clientId: text, clientSecret: text },
    keep: ({ _id }) => ({ clientId: _id }),
  },
  {
    call: 'GET /router/security/client?params[sort]=-createdAt',
    reads: {
      clients: some({
        _id: text,
        clientId: text,
        domain: text,
        platform: 'WEB',
        notes: text,
        alias: text,
        createdAt: text,
        updatedAt: text,
      }),
    },
  },
  {
    call: 'PUT /router/security/client/{clientId}',
    body: { domain: 'app.example.com', notes: 'n', alias: 'panel2' },
    reads: { alias: 'panel2' },
  },
  { call: 'DELETE /router/security/client/{clientId}' },
  {
    call: 'GET /router/routes/',
    reads: expect.objectContaining({
      authentication: expect.objectContaining({
        moduleUrl: text,
        routes: object,
        socketRoutes: object,
        middlewares: object,
      }),
    }),
  },
  {
    call: 'GET /config/router',
    reads: {
      config: {
        hostUrl: text,
        transports,
        security: { clientValidation: flag },
        captcha: { provider: text, enabled: flag, secretKey: text },
        cors,
      },
    },
  },
];
