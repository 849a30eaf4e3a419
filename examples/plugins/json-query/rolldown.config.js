// Settings of the bundler. Imports from the host stay imports.
export default { external: /^(pinion|wasi):/ };
