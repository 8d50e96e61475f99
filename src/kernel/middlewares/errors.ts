/** What can go wrong with the middlewares of routes. */
import { defineErrors } from '../errors.ts';

export const middlewareErrors = defineErrors({
  ROUTE_NOT_FOUND: [
    404,
    'There is no such route: GET /router/routes lists them, with :name for parameters',
  ],
  MIDDLEWARE_NOT_FOUND: [404, 'There is no such middleware: GET /router/middlewares lists them'],
  MIDDLEWARE_REQUIRED: [
    403,
    'A module requires this middleware: only middlewares that operators added can be removed',
  ],
  MIDDLEWARE_INCOMPATIBLE: [400, 'This middleware cannot be added to this route'],
});
