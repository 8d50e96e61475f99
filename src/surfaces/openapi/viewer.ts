/** What the API viewer (swagger-ui) is told, and how it looks. */

/**
 * The padlocks of swagger-ui say whether somebody has signed in, and are closed where nobody need to: people read them
 * the other way round. Words in their place say what an operation asks for.
 */
const access = `const access = () => ({
  statePlugins: { auth: { wrapSelectors: {
    // To need nothing is one choice of an operation; it is no credential that was given.
    isAuthorized: (_original, { authSelectors }) => (_state, security) =>
      security?.some((one) => one.size > 0 && one.every((_, name) => !!authSelectors.authorized().get(name))),
  } } },
  wrapComponents: {
    OperationSummary: (Original, { React }) => (props) => {
      const { operationProps } = props;
      const isOptional = operationProps.get('security')?.some(({ size }) => size === 0);
      const needed = isOptional ? 'auth optional' : 'auth required';
      const said = operationProps.get('isAuthorized') ? 'authorized' : needed;
      return React.createElement(Original, { ...props, operationProps: operationProps.set('isAuthorized', said) });
    },
    authorizeOperationBtn: (_original, { React }) => ({ isAuthorized: said, onClick }) =>
      React.createElement('button', {
        className: 'authorization__btn access',
        onClick: (event) => {
          event.stopPropagation();
          onClick();
        },
      }, said),
  },
});
`;

export const viewerScript = `${access}
SwaggerUIBundle({
  url: 'swagger.json',
  dom_id: '#viewer',
  plugins: [access],
  deepLinking: true,
  docExpansion: 'none',
  filter: true,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
`;

export const viewerStyle = `body { margin: 0; background: #fafbfc; }
header { display: flex; gap: 0.75rem; align-items: baseline; padding: 0.9rem 1.5rem; background: #10324a; color: #fff; font: 16px system-ui, sans-serif; }
header strong { font-size: 1.15rem; letter-spacing: 0.02em; }
header span { opacity: 0.8; }
header a { margin-left: auto; color: #9fd3f5; }
#viewer { max-width: 1200px; margin: 0 auto; padding-bottom: 3rem; }
.swagger-ui .access { flex: none; width: auto; padding: 0 0.5rem; color: #5b7182; font: 12px system-ui, sans-serif; }
.swagger-ui .info { margin: 1.5rem 0 0.5rem; }
.swagger-ui .scheme-container { box-shadow: none; background: transparent; padding: 0.5rem 0; }
@media (max-width: 640px) {
  .swagger-ui .opblock-tag { flex-wrap: wrap; }
  .swagger-ui .opblock-tag small { order: 1; flex: 1 0 100%; padding: 0; }
  .swagger-ui .opblock-tag .expand-operation { margin-left: auto; }
  .swagger-ui .filter .operation-filter-input { max-width: none; }
}
`;
